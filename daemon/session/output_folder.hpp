// SPDX-License-Identifier: Apache-2.0
// Opens and cleans the output folder of a run: no other user can write there, and one run at a time does.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// A file in the folder of logs. The run that holds its lock writes there.
inline constexpr const char* kOutputLock = "run.lock";

struct OutputFolder {
  std::filesystem::path log;  // the folder for what trainers print and exchange
  Descriptor lock;            // the folder is ours while a copy of it is open
  std::string problem;  // why the lock is not held where the file system has no locks; else empty
};

// ErrorKind::invalid: the folder is the root, one of the system's below it, or the home of the user; or it is, or lies in,
// the folder of a run's logs or that of the user's state (history and queue), also by way of links. Makes nothing.
[[nodiscard]] Result<void> check_purpose_of_output(const std::filesystem::path& folder);

// Makes the folder and `log` in it, takes the lock, and removes what killed writers left.
// ErrorKind::invalid: that of check_purpose_of_output().
// ErrorKind::permission: another user owns one of the two, or can write there; a link in the place of `log`.
// ErrorKind::busy: another run, which the message names, has held the lock for five seconds. Nothing is written then.
[[nodiscard]] Result<OutputFolder> open_output_folder(const std::filesystem::path& folder,
                                                      const std::string& holder);

// Removes what writers left that were killed. Does nothing where a run holds the lock, or none ever wrote there.
void clear_output_folder(const std::filesystem::path& folder);

// Checks the path of the model before the training. ErrorKind::invalid: there is a folder of that name.
[[nodiscard]] Result<void> check_place_of_model(const std::filesystem::path& model);

// The beginning of best.yaml, the recipe that a run writes into its output folder, after "# ".
inline constexpr std::string_view kBestComment = "The best configuration of run ";

// ErrorKind::invalid: the recipe is the best.yaml of its output folder, and no run wrote it: the run would overwrite
// it.
[[nodiscard]] Result<void> check_place_of_best(const std::filesystem::path& folder,
                                               const std::filesystem::path& recipe);

// The errors that open_output_folder() and check_place_of_model() would give now. Makes and locks nothing.
[[nodiscard]] Result<void> check_output_folder(const std::filesystem::path& folder);

// ErrorKind::invalid, at the key of the recipe: a file that model or data name is one that a run of it would write or replace in
// its output folder, such as model.weights: out/model.pt, or a pattern such as */* matches one, whether it is there yet or not; or
// the pattern matches the history. `trains`: the run does not end after the tuning.
[[nodiscard]] Result<void> check_input_files(const recipes::Recipe& recipe,
                                             const std::filesystem::path& history, bool trains);

// The file in the output folder with the state at the end of the training whose model lies there.
inline constexpr const char* kTrainingState = "training_state.pt";

// The best model of a run while it trains, model_best-RUN.pt, and the averages beside it, with `_ema`.
[[nodiscard]] std::array<std::filesystem::path, 2> best_models_of(
    const std::filesystem::path& folder, const std::string& run);

// Renames them to model_best.pt and model_best_ema.pt, in place of those of an earlier training. A missing file is no
// error: it was renamed before, or no evaluation was better than those of the run that was extended.
[[nodiscard]] Result<void> publish_best_model(const std::filesystem::path& folder,
                                              const std::string& run);

// Settles the last checkpoint of a run once its model is in the folder. With `keeps_state` the checkpoint becomes the
// file kTrainingState, from which another run can go on; otherwise it is removed. The state of an earlier model is
// removed in both cases. A state that is newer than the checkpoint stays, and the checkpoint is removed. A best model
// that was not published is removed first. Does nothing if the checkpoint is gone; a step that fails is left for the
// next run. REQUIRES: the folder is locked.
void settle_checkpoint(const std::filesystem::path& folder, const std::string& run,
                       bool keeps_state);

}  // namespace autotuned::daemon
