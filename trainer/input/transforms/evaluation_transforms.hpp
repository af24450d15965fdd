// SPDX-License-Identifier: Apache-2.0
// What happens to the samples that a model is evaluated on.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

// The transforms of a training without what is random about them, as torchvision's reference recipes do it:
//
//   random_crop          center_crop of the same size
//   random_resized_crop  resize_shorter to size x 256/224 (rounded), then center_crop of the size
//   all others that draw left out
//
// The rest stays, in its order. What is not known stays, too, for whoever compiles the transforms to refuse.
[[nodiscard]] std::vector<Transform> evaluation_transforms(std::span<const Transform> training);

// Whether it draws random numbers; false for a name that is not known.
[[nodiscard]] bool is_random(std::string_view transform);

}  // namespace autotuned::input
