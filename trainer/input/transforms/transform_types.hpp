// SPDX-License-Identifier: Apache-2.0
// The transforms behind find_transform(), one source file per family, and functions to read their parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

using MadeStage = Result<std::unique_ptr<Stage>>;

[[nodiscard]] MadeStage make_decode(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_decode_jpeg(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_random_crop(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_center_crop(const Transform& transform, const SampleType& input);
// The cut of random_resized_crop: a part of any size.
[[nodiscard]] MadeStage make_random_resized_crop(const Transform& transform,
                                                 const SampleType& input);
[[nodiscard]] MadeStage make_random_flip(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_color_jitter(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_rand_augment(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_random_rotation(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_random_erasing(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_pad(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_resize(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_resize_shorter(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_random_mask(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_rgb_to_yuv(const Transform& transform, const SampleType& input);
// to_float, scale and normalize.
[[nodiscard]] MadeStage make_point_wise(const Transform& transform, const SampleType& input);

// The same transforms for class masks: by the nearest pixel, with kNoClass for pixels from outside.
[[nodiscard]] MadeStage make_mask_rotation(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_mask_pad(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_mask_resize(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_mask_resize_shorter(const Transform& transform,
                                                 const SampleType& input);

// "`size` PROBLEM", with the transform as the place.
[[nodiscard]] tl::unexpected<Error> bad_parameter(const Transform& transform, const char* name,
                                                  const std::string& problem, std::string remedy);

// A finite number, or text such as "1/255".
[[nodiscard]] std::optional<double> number_of(const Json& value);

// The numbers from `lowest` to `highest`.
struct Interval {
  double lowest = 0;
  double highest = 0;

  // A position within it, from 64 random bits.
  [[nodiscard]] double at(std::uint64_t random) const {
    constexpr double kUnit = 0x1p-53;
    return lowest + (highest - lowest) * (static_cast<double>(random >> 11U) * kUnit);
  }
};
// Whether a MirrorStage with these draws exchanges left and right.
[[nodiscard]] inline bool is_mirroring(double probability, const RandomStream& draws) {
  return Interval{0, 1}.at(draws.at(0)) < probability;
}
// `name` as [lowest, highest] with least <= lowest <= highest <= most, or `otherwise` if it is absent.
[[nodiscard]] Result<Interval> interval_parameter(const Transform& transform, const char* name,
                                                  Interval otherwise, Interval within);

// `name` with one number per channel, from one for all or from a list.
[[nodiscard]] Result<std::vector<float>> per_channel(const Transform& transform, const char* name,
                                                     int channels);
// The same for pixels that a transform sets; 0 if it is absent. Where pixels are bytes, the numbers must be such.
[[nodiscard]] Result<std::vector<float>> fill_parameter(const Transform& transform,
                                                        const char* name, const SampleType& input);

struct Size {
  int height = 1;
  int width = 1;
};
// `size`: a number of pixels for both sides, or [height, width].
[[nodiscard]] Result<Size> size_parameter(const Transform& transform);

}  // namespace autotuned::input
