// SPDX-License-Identifier: Apache-2.0
// Images with class masks that a model can learn, without any file: on a ground of class 0 lies a disc of each other
// class, the later ones on top. Each class has a brightness of its own in every channel; a pixel is the mean of that
// and of noise. The edge of a disc does not count, as in PASCAL VOC.
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

// The radii of discs, as parts of the shorter side.
constexpr double kMinRadius = 0.1;
constexpr double kMaxRadius = 0.3;
constexpr double kEdge = 0.5;  // half the width of an edge, in pixels

struct Disc {
  double row = 0;
  double column = 0;
  double radius = 0;

  // The distance of a pixel's middle from the edge; negative inside.
  [[nodiscard]] double distance(int y, int x) const {
    return std::hypot(y + 0.5 - row, x + 0.5 - column) - radius;
  }
};

// From 0 to below 1.
double share_of(std::uint64_t random) {
  return static_cast<double>(random >> 11U) * 0x1p-53;
}

class SyntheticMasksDataset final : public Dataset {
 public:
  explicit SyntheticMasksDataset(const SyntheticParameters& made) : made_(made) {}

  std::int64_t size() const override { return made_.samples; }
  SampleType type() const override { return type_of(Element::uint8, made_.shape); }
  int classes() const override { return made_.classes; }
  TargetType target() const override { return {TargetKind::class_mask, 1}; }
  std::int64_t label(std::int64_t /*index*/) const override { return 0; }

  Result<SampleShape> read_mask(std::int64_t index, MaskRoom& room) const override {
    const SampleShape& shape = made_.shape;
    room.classes.assign(
        static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width), 0);
    const std::vector<Disc> discs = discs_of(index);
    std::size_t at = 0;
    for (int y = 0; y < shape.height; ++y)
      for (int x = 0; x < shape.width; ++x, ++at)
        for (std::size_t i = 0; i < discs.size(); ++i) {
          const double distance = discs[i].distance(y, x);
          if (distance > kEdge) continue;
          room.classes[at] = distance < -kEdge ? static_cast<std::uint8_t>(i + 1) : kNoClass;
        }
    return SampleShape{1, shape.height, shape.width};
  }

  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    assert(index >= 0 && index < made_.samples);
    assert(out.size() == static_cast<std::size_t>(made_.shape.elements()));
    const RandomStream noise(made_.seed, static_cast<std::uint64_t>(index) * 2);
    for (std::size_t i = 0; i < out.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t bytes = noise.at(i);
      std::memcpy(out.data() + i, &bytes, std::min(sizeof bytes, out.size() - i));
    }
    const SampleShape& shape = made_.shape;
    const std::vector<Disc> discs = discs_of(index);
    const std::size_t plane =
        static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
    std::size_t at = 0;
    for (int y = 0; y < shape.height; ++y)
      for (int x = 0; x < shape.width; ++x, ++at) {
        int number = 0;
        for (std::size_t i = 0; i < discs.size(); ++i)
          if (discs[i].distance(y, x) <= 0) number = static_cast<int>(i) + 1;
        for (int channel = 0; channel < shape.channels; ++channel) {
          std::uint8_t& pixel = out[at + static_cast<std::size_t>(channel) * plane];
          pixel = static_cast<std::uint8_t>((pixel + brightness(number, channel)) / 2);
        }
      }
    return {};
  }

 private:
  [[nodiscard]] std::vector<Disc> discs_of(std::int64_t index) const {
    const RandomStream draws(made_.seed, static_cast<std::uint64_t>(index) * 2 + 1);
    const double side = std::min(made_.shape.height, made_.shape.width);
    std::vector<Disc> discs;
    for (int i = 1; i < made_.classes; ++i) {
      const std::uint64_t first = static_cast<std::uint64_t>(i) * 3;
      discs.push_back({.row = share_of(draws.at(first)) * made_.shape.height,
                       .column = share_of(draws.at(first + 1)) * made_.shape.width,
                       .radius = side * (kMinRadius + (kMaxRadius - kMinRadius) *
                                                          share_of(draws.at(first + 2)))});
    }
    return discs;
  }

  // Different for each class.
  [[nodiscard]] int brightness(int number, int channel) const {
    return ((number + channel) % made_.classes * 510 + 255) / (2 * made_.classes);
  }

  SyntheticParameters made_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> open_synthetic_masks(const Json& parameters) {
  const auto made = synthetic_parameters(parameters);
  if (!made) return tl::unexpected(made.error());
  if (made->classes > kMaxMaskClasses) {
    return fail(ErrorKind::invalid, "`classes` is more than 255", "data", "use fewer classes");
  }
  return std::make_unique<SyntheticMasksDataset>(*made);
}

}  // namespace autotuned::input
