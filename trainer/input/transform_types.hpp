// SPDX-License-Identifier: Apache-2.0
// The transforms behind find_transform(), one source file per family, and what they read parameters with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "trainer/input/transform.hpp"

namespace autotuned::input {

using MadeStage = Result<std::unique_ptr<Stage>>;

[[nodiscard]] MadeStage make_decode_jpeg(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_random_crop(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_center_crop(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_resize(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_random_mask(const Transform& transform, const SampleType& input);
[[nodiscard]] MadeStage make_rgb_to_yuv(const Transform& transform, const SampleType& input);
// to_float, scale and normalize.
[[nodiscard]] MadeStage make_point_wise(const Transform& transform, const SampleType& input);

// "`size` PROBLEM", with the transform as the place.
[[nodiscard]] tl::unexpected<Error> bad_parameter(const Transform& transform, const char* name,
                                                  const std::string& problem, std::string remedy);

// A finite number, or text such as "1/255".
[[nodiscard]] std::optional<double> number_of(const Json& value);

struct Size {
  int height = 1;
  int width = 1;
};
// `size`: a number of pixels for both sides, or [height, width].
[[nodiscard]] Result<Size> size_parameter(const Transform& transform);

}  // namespace autotuned::input
