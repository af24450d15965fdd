// SPDX-License-Identifier: Apache-2.0
// Decides which weights a training saves on its way, and which of these files stay: output.save_every, save_every_steps
// and keep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "recipes/recipe.hpp"

namespace autotuned::trainer {

class SavedWeights {
 public:
  // The training has this `batch_size`. The recipe counts steps of its own batch size; the files are due after the same
  // number of samples. REQUIRES: batch_size and steps_per_epoch of at least 1.
  SavedWeights(const recipes::Recipe& recipe, std::int64_t batch_size,
               std::int64_t steps_per_epoch);

  // The names of the files that are due after `steps` steps of the training (at least 1), without their ending.
  [[nodiscard]] std::vector<std::string> due_after(std::int64_t steps) const;
  // The number of steps from there to the next file that is due by steps; INT64_MAX: there is none.
  [[nodiscard]] std::int64_t steps_to_next(std::int64_t steps) const;
  // Whether the end of an epoch may be followed by a file.
  [[nodiscard]] bool counts_epochs() const { return epochs_ > 0; }

  // Removes old files: of those in `folder` with such names, keeps the newest `keep`, with the averages beside them.
  // Other files stay. A file that cannot be removed stays, too.
  void remove_old(const std::filesystem::path& folder) const;

 private:
  std::int64_t epochs_ = 0;  // between two files; 0: none
  std::int64_t steps_ = 0;   // the same, of this batch size
  std::int64_t steps_per_epoch_;
  std::int64_t kept_;
};

}  // namespace autotuned::trainer
