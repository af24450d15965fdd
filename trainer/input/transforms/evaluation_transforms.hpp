// SPDX-License-Identifier: Apache-2.0
// The transforms of evaluation samples.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

// The transforms of a training without their random parts, as in torchvision's reference recipes:
//
//   random_crop          center_crop of the same size
//   random_resized_crop  resize_shorter to size x 256/224 (rounded), then center_crop of the size
//   other random ones    left out
//
// All others stay in their order, also unknown ones, which Pipeline::compile() refuses.
[[nodiscard]] std::vector<Transform> evaluation_transforms(std::span<const Transform> training);

// Whether a transform is random; false for an unknown name.
[[nodiscard]] bool is_random(std::string_view transform);

}  // namespace autotuned::input
