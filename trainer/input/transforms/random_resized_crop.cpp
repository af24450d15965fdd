// SPDX-License-Identifier: Apache-2.0
// The cut of random_resized_crop, which then resizes: a part whose share of the picture and whose
// proportions are drawn, as torchvision's RandomResizedCrop does.
#include <cmath>

#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

constexpr int kCropTries = 10;
constexpr std::uint64_t kDrawsOfCropTry = 4;  // area, proportions, top, left

class AreaCropStage final : public CutStage {
 public:
  AreaCropStage(Interval scale, Interval ratio, const SampleType& input)
      : scale_(scale),
        log_ratio_{std::log(ratio.lowest), std::log(ratio.highest)},
        ratio_(ratio),
        output_(input) {
    output_.height.least = 1;
    output_.width.least = 1;
  }

  SampleType output() const override { return output_; }

  Result<Window> window(const SampleShape& from, const RandomStream& draws) const override {
    const double area = static_cast<double>(from.height) * from.width;
    for (std::uint64_t i = 0; i < kCropTries; ++i) {
      const std::uint64_t first = i * kDrawsOfCropTry;
      const double wanted = area * scale_.at(draws.at(first));
      const double ratio = std::exp(log_ratio_.at(draws.at(first + 1)));
      const double width = std::nearbyint(std::sqrt(wanted * ratio));
      const double height = std::nearbyint(std::sqrt(wanted / ratio));
      if (width < 1 || height < 1 || width > from.width || height > from.height) continue;
      Window kept{.height = static_cast<int>(height), .width = static_cast<int>(width)};
      kept.top = offset(from.height - kept.height, draws.at(first + 2));
      kept.left = offset(from.width - kept.width, draws.at(first + 3));
      return kept;
    }
    return middle(from);
  }

 private:
  static int offset(int room, std::uint64_t random) {
    return static_cast<int>(below(random, static_cast<std::uint64_t>(room) + 1));
  }

  // As much of the middle as the proportions allow.
  Window middle(const SampleShape& from) const {
    Window kept{.height = from.height, .width = from.width};
    const double ratio = static_cast<double>(from.width) / from.height;
    if (ratio < ratio_.lowest) {
      kept.height = static_cast<int>(std::nearbyint(from.width / ratio_.lowest));
    } else if (ratio > ratio_.highest) {
      kept.width = static_cast<int>(std::nearbyint(from.height * ratio_.highest));
    }
    kept.top = (from.height - kept.height) / 2;
    kept.left = (from.width - kept.width) / 2;
    return kept;
  }

  Interval scale_;
  Interval log_ratio_;
  Interval ratio_;
  SampleType output_;
};

}  // namespace

MadeStage make_random_resized_crop(const Transform& transform, const SampleType& input) {
  constexpr double kMin = 0.001;
  const auto size = size_parameter(transform);  // for its error
  if (!size) return tl::unexpected(size.error());
  const auto scale = interval_parameter(transform, "scale", {0.08, 1.0}, {kMin, 1.0});
  if (!scale) return tl::unexpected(scale.error());
  const auto ratio = interval_parameter(transform, "ratio", {3.0 / 4, 4.0 / 3}, {0.01, 100.0});
  if (!ratio) return tl::unexpected(ratio.error());
  return std::make_unique<AreaCropStage>(*scale, *ratio, input);
}

}  // namespace autotuned::input
