// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/evaluation_transforms.hpp"

#include <cmath>

namespace autotuned::input {
namespace {

// The margin of pictures that are evaluated at 224 x 224 after a resize to 256.
constexpr double kMargin = 256.0 / 224;

// The `size` of a random_resized_crop with the margin. An invalid size is kept; the transform refuses it.
Json with_margin(const Json& size) {
  if (size.is_array()) {
    Json sides = Json::array();
    for (const Json& side : size)
      sides.push_back(with_margin(side));
    return sides;
  }
  return size.is_number() ? Json(std::llround(size.get<double>() * kMargin)) : size;
}

}  // namespace

std::vector<Transform> evaluation_transforms(std::span<const Transform> training) {
  std::vector<Transform> evaluation;
  for (const Transform& transform : training) {
    const Json& size = member(transform.parameters, "size");
    if (transform.type == "random_crop") {
      evaluation.push_back({"center_crop", {{"size", size}}});
    } else if (transform.type == "random_resized_crop") {
      evaluation.push_back({"resize_shorter", {{"size", with_margin(size)}}});
      evaluation.push_back({"center_crop", {{"size", size}}});
    } else if (!is_random(transform.type)) {
      evaluation.push_back(transform);
    }
  }
  return evaluation;
}

bool is_random(std::string_view transform) {
  const TransformKind* const kind = find_transform(transform);
  return kind != nullptr && kind->draws != Draws::none;
}

}  // namespace autotuned::input
