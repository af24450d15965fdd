// SPDX-License-Identifier: Apache-2.0
// Images from which a model can learn numbers or tags, without any file: each value of a target has a direction for every cell of
// a 4 x 4 grid and channel. A cell is as bright as the sum of these directions times the values says; a sample is the
// mean of that and of noise of its own.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "trainer/input/common/random.hpp"
#include "trainer/input/datasets/dataset_types.hpp"

namespace autotuned::input {
namespace {

constexpr int kTargetGrid = 4;
constexpr double kMiddle = 127.5;
// The contrast around the middle brightness: few cells reach black or white.
constexpr double kContrast = 120.0;
// The number that stands for a tag; negative if a sample does not have the tag.
constexpr double kOfTag = 0.6;

// From -1 to below 1.
double signed_share(std::uint64_t random) {
  return static_cast<double>(random >> 11U) * 0x1p-52 - 1.0;
}

class SyntheticTargetsDataset final : public Dataset {
 public:
  SyntheticTargetsDataset(const SyntheticParameters& made, TargetKind kind)
      : made_(made), kind_(kind) {}

  std::int64_t size() const override { return made_.samples; }
  SampleType type() const override { return type_of(Element::uint8, made_.shape); }
  int classes() const override { return made_.classes; }
  TargetType target() const override { return {kind_, made_.classes}; }
  std::int64_t label(std::int64_t /*index*/) const override { return 0; }
  void read_target(std::int64_t index, std::span<float> out) const override {
    for (std::size_t k = 0; k < out.size(); ++k)
      out[k] = static_cast<float>(kind_ == TargetKind::tags ? value(index, k) > 0 ? 1.0 : 0.0
                                                            : value(index, k));
  }

  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    assert(index >= 0 && index < made_.samples);
    assert(out.size() == static_cast<std::size_t>(made_.shape.elements()));
    const RandomStream noise(made_.seed, stream_of(index, kNoise));
    for (std::size_t i = 0; i < out.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t bytes = noise.at(i);
      std::memcpy(out.data() + i, &bytes, std::min(sizeof bytes, out.size() - i));
    }
    const std::vector<unsigned> cells = brightness(index);
    const SampleShape& shape = made_.shape;
    std::size_t at = 0;
    for (int row = 0; row < shape.channels * shape.height; ++row) {
      const int cell_row =
          row / shape.height * kTargetGrid + row % shape.height * kTargetGrid / shape.height;
      for (int x = 0; x < shape.width; ++x, ++at) {
        const auto cell =
            static_cast<std::size_t>(cell_row * kTargetGrid + x * kTargetGrid / shape.width);
        out[at] = static_cast<std::uint8_t>((out[at] + cells[cell]) / 2);
      }
    }
    return {};
  }

 private:
  // Streams of a seed: of the noise and the values of each sample, and of the directions of each value.
  static constexpr std::uint64_t kNoise = 0;
  static constexpr std::uint64_t kValues = 1;
  static constexpr std::uint64_t kDirections = 2;
  static std::uint64_t stream_of(std::int64_t number, std::uint64_t what) {
    return static_cast<std::uint64_t>(number) * 3 + what;
  }

  [[nodiscard]] double value(std::int64_t index, std::uint64_t k) const {
    const double drawn = signed_share(RandomStream(made_.seed, stream_of(index, kValues)).at(k));
    if (kind_ != TargetKind::tags) return drawn;
    return drawn < 0 ? -kOfTag : kOfTag;
  }

  [[nodiscard]] std::vector<unsigned> brightness(std::int64_t index) const {
    std::vector<double> sums(static_cast<std::size_t>(made_.shape.channels) * kTargetGrid *
                             kTargetGrid);
    for (int k = 0; k < made_.classes; ++k) {
      const double amount = value(index, static_cast<std::uint64_t>(k));
      const RandomStream directions(made_.seed, stream_of(k, kDirections));
      for (std::size_t cell = 0; cell < sums.size(); ++cell)
        sums[cell] += amount * signed_share(directions.at(cell));
    }
    const double factor = kContrast / std::sqrt(static_cast<double>(made_.classes));
    std::vector<unsigned> cells;
    for (const double sum : sums)
      cells.push_back(static_cast<unsigned>(std::clamp(kMiddle + factor * sum, 0.0, 255.0)));
    return cells;
  }

  SyntheticParameters made_;
  TargetKind kind_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> open_synthetic_targets(const Json& parameters) {
  const auto made = synthetic_parameters(parameters, "targets");
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<SyntheticTargetsDataset>(*made, TargetKind::numbers);
}

Result<std::unique_ptr<Dataset>> open_synthetic_tags(const Json& parameters) {
  const auto made = synthetic_parameters(parameters, "tags");
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<SyntheticTargetsDataset>(*made, TargetKind::tags);
}

}  // namespace autotuned::input
