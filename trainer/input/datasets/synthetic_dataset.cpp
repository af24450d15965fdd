// SPDX-License-Identifier: Apache-2.0
// Images that a model can learn to tell apart, without any file: each class has a brightness for
// every cell of a 4 x 4 grid and channel; a sample is the mean of that and of noise of its own.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <limits>

#include "trainer/input/common/random.hpp"
#include "trainer/input/datasets/dataset_types.hpp"

namespace autotuned::input {
namespace {

constexpr int kGrid = 4;

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(std::int64_t samples, SampleShape shape, int classes, std::uint64_t seed)
      : samples_(samples), shape_(shape), classes_(classes), seed_(seed) {}

  std::int64_t size() const override { return samples_; }
  SampleType type() const override { return type_of(Element::uint8, shape_); }
  int classes() const override { return classes_; }
  // In turn, so that any stretch of samples holds every class.
  std::int64_t label(std::int64_t index) const override { return index % classes_; }

  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    assert(index >= 0 && index < samples_);
    assert(out.size() == static_cast<std::size_t>(shape_.elements()));
    fill_with_noise(index, out);
    mix_in_pattern(label(index), out);
    return {};
  }

 private:
  void fill_with_noise(std::int64_t index, std::span<std::uint8_t> out) const {
    // Odd streams are samples, even ones are classes.
    const RandomStream noise(seed_, static_cast<std::uint64_t>(index) * 2 + 1);
    for (std::size_t i = 0; i < out.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t bytes = noise.at(i);
      std::memcpy(out.data() + i, &bytes, std::min(sizeof bytes, out.size() - i));
    }
  }

  void mix_in_pattern(std::int64_t label, std::span<std::uint8_t> out) const {
    const RandomStream pattern(seed_, static_cast<std::uint64_t>(label) * 2);
    std::size_t at = 0;
    for (int row = 0; row < shape_.channels * shape_.height; ++row) {
      const int cell_row =
          row / shape_.height * kGrid + row % shape_.height * kGrid / shape_.height;
      for (int cell = 0; cell < kGrid; ++cell) {
        const auto brightness = static_cast<unsigned>(
            pattern.at(static_cast<std::uint64_t>(cell_row * kGrid + cell)) >> 56U);
        // Columns x with x * kGrid / width == cell.
        const int begin = (cell * shape_.width + kGrid - 1) / kGrid;
        const int end = ((cell + 1) * shape_.width + kGrid - 1) / kGrid;
        for (int x = begin; x < end; ++x, ++at) {
          out[at] = static_cast<std::uint8_t>((out[at] + brightness) / 2);
        }
      }
    }
  }

  std::int64_t samples_;
  SampleShape shape_;
  int classes_;
  std::uint64_t seed_;
};

Result<SampleShape> shape_from(const Json& shape) {
  constexpr std::size_t kDimensions = 3;
  const auto refuse = [] {
    return fail(ErrorKind::invalid, "`shape` is not a list of three sizes", "data",
                "give channels, height and width, such as [3, 32, 32]");
  };
  if (!shape.is_array() || shape.size() != kDimensions) return refuse();
  std::int64_t elements = 1;
  for (const Json& side : shape) {
    if (!side.is_number_integer() || side < 1 || side > kMaxSide) return refuse();
    elements *= side.get<std::int64_t>();
  }
  if (elements > kMaxSampleBytes) {
    return fail(ErrorKind::invalid, "`shape` makes samples larger than 1 GiB", "data",
                "give smaller sizes");
  }
  return SampleShape{shape[0].get<int>(), shape[1].get<int>(), shape[2].get<int>()};
}

}  // namespace

Result<SyntheticParameters> synthetic_parameters(const Json& parameters, const char* count) {
  const auto samples = bounded_integer(parameters, "samples", 1, kMaxSamples);
  if (!samples) return tl::unexpected(samples.error());
  const auto classes = bounded_integer(parameters, count, 1, kMaxClasses);
  if (!classes) return tl::unexpected(classes.error());
  constexpr std::int64_t kAnySeed = std::numeric_limits<std::int64_t>::max();
  const auto seed = bounded_integer(parameters, "seed", 0, kAnySeed, 1);
  if (!seed) return tl::unexpected(seed.error());
  const auto shape = shape_from(member(parameters, "shape"));
  if (!shape) return tl::unexpected(shape.error());
  return SyntheticParameters{*samples, *shape, static_cast<int>(*classes),
                             static_cast<std::uint64_t>(*seed)};
}

Result<std::unique_ptr<Dataset>> open_synthetic(const Json& parameters) {
  const auto made = synthetic_parameters(parameters);
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<SyntheticDataset>(made->samples, made->shape, made->classes, made->seed);
}

}  // namespace autotuned::input
