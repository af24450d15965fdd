// SPDX-License-Identifier: Apache-2.0
// Checks that the disk has space for the files that a training writes into its output folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// The space that a training needs, estimated from the size of the parameters alone, without buffers.
struct OutputNeed {
  std::int64_t checkpoint_bytes = 0;  // parameters, state of the optimizer, averages
  std::int64_t model_bytes = 0;       // the final model
  std::int64_t saves_bytes =
      0;  // the model of the best evaluation, and those that the recipe asks for

  // The most that exists at one time: a checkpoint is written beside the one that it replaces.
  [[nodiscard]] std::int64_t most_bytes() const {
    return 2 * checkpoint_bytes + model_bytes + saves_bytes;
  }
};
[[nodiscard]] OutputNeed output_need(const recipes::Recipe& recipe, std::int64_t parameter_bytes);

inline constexpr const char* kSpaceRemedy = "free some, or name another folder with --output";

struct SpaceFinding {
  // True: even the model does not fit. False: the checkpoints may not fit; a short training writes few or none.
  bool is_certain = false;
  std::string text;  // without the folder and without kSpaceRemedy
};
// Nothing if there is enough space.
[[nodiscard]] std::optional<SpaceFinding> space_finding(const OutputNeed& need,
                                                        std::int64_t free_bytes);

// The same for the recipe's output folder, or the nearest existing folder above it. Also nothing if the size of the
// parameters is not known (0) or the file system cannot be asked. `freed_bytes`: space that is freed while the training
// writes.
[[nodiscard]] std::optional<SpaceFinding> output_space(const recipes::Recipe& recipe,
                                                       std::int64_t parameter_bytes,
                                                       std::int64_t freed_bytes = 0);

}  // namespace autotuned::daemon
