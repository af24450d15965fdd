// SPDX-License-Identifier: Apache-2.0
// Whether the disk has room for what a training writes into its output folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// In bytes, from the size of the parameters alone: buffers are left out.
struct OutputNeed {
  std::int64_t checkpoint_bytes = 0;  // parameters, state of the optimizer, averages
  std::int64_t model_bytes = 0;       // the model of the end
  std::int64_t saves_bytes = 0;       // of the best evaluation, and those that the recipe asks for

  // A checkpoint is written beside the one that it replaces.
  [[nodiscard]] std::int64_t most_bytes() const {
    return 2 * checkpoint_bytes + model_bytes + saves_bytes;
  }
};
[[nodiscard]] OutputNeed output_need(const recipes::Recipe& recipe, std::int64_t parameter_bytes);

inline constexpr const char* kRoomRemedy = "free some, or name another folder with --output";

struct RoomFinding {
  // The model alone does not fit. Else the checkpoints may not: a short training writes few or none.
  bool is_certain = false;
  std::string text;  // without the folder and without kRoomRemedy
};
// Nothing where there is room.
[[nodiscard]] std::optional<RoomFinding> room_finding(const OutputNeed& need,
                                                      std::int64_t free_bytes);

// The same for the recipe's output folder, or the nearest folder above it that is there. Nothing also where the parameters
// (0) or the file system are not known. `freed_bytes` come free while the training writes.
[[nodiscard]] std::optional<RoomFinding> output_room(const recipes::Recipe& recipe,
                                                     std::int64_t parameter_bytes,
                                                     std::int64_t freed_bytes = 0);

}  // namespace autotuned::daemon
