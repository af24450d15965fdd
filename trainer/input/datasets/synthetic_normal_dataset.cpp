// SPDX-License-Identifier: Apache-2.0
// Floats drawn from the standard normal distribution, computed on every read. Nothing can be learned
// from them: they are for measuring.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numbers>

#include "trainer/input/common/random.hpp"
#include "trainer/input/datasets/dataset_types.hpp"

namespace autotuned::input {
namespace {

constexpr std::size_t kQuantiles = 65'536;

// The quantile of the standard normal distribution for `share`, in (0, 0.5), by Newton's method.
double quantile(double share, double start) {
  double x = start;
  for (int i = 0; i < 60; ++i) {
    const double excess = 0.5 * std::erfc(-x / std::numbers::sqrt2) - share;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double step = excess / density;
    x -= step;
    if (std::abs(step) < 1e-12) break;
  }
  return x;
}

// The middles of 65,536 equally probable parts: 16 random bits become a number by one look.
std::vector<float> normal_quantiles() {
  std::vector<float> quantiles(kQuantiles);
  double x = -4.3;  // a little below the first
  for (std::size_t i = 0; i < kQuantiles / 2; ++i) {
    x = quantile((static_cast<double>(i) + 0.5) / static_cast<double>(kQuantiles), x);
    quantiles[i] = static_cast<float>(x);
    quantiles[kQuantiles - 1 - i] = static_cast<float>(-x);
  }
  return quantiles;
}

class SyntheticNormalDataset final : public Dataset {
 public:
  SyntheticNormalDataset(std::int64_t samples, SampleShape shape, int classes, std::uint64_t seed)
      : samples_(samples),
        shape_(shape),
        classes_(classes),
        seed_(seed),
        quantiles_(normal_quantiles()) {}

  std::int64_t size() const override { return samples_; }
  SampleType type() const override { return type_of(Element::float32, shape_); }
  int classes() const override { return classes_; }
  std::int64_t label(std::int64_t index) const override { return index % classes_; }

  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    assert(index >= 0 && index < samples_);
    const auto count = static_cast<std::size_t>(shape_.elements());
    assert(out.size() == count * sizeof(float));
    const RandomStream random(seed_, static_cast<std::uint64_t>(index));
    auto* const values = reinterpret_cast<float*>(out.data());
    constexpr std::size_t kPerDraw = 4;
    for (std::size_t i = 0; i < count; i += kPerDraw) {
      std::uint64_t bits = random.at(i / kPerDraw);
      for (std::size_t k = i; k < std::min(i + kPerDraw, count); ++k, bits >>= 16U)
        values[k] = quantiles_[bits & 0xffffU];
    }
    return {};
  }

 private:
  std::int64_t samples_;
  SampleShape shape_;
  int classes_;
  std::uint64_t seed_;
  std::vector<float> quantiles_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> open_synthetic_normal(const Json& parameters) {
  const auto made = synthetic_parameters(parameters);
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<SyntheticNormalDataset>(made->samples, made->shape, made->classes,
                                                  made->seed);
}

}  // namespace autotuned::input
