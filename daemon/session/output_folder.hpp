// SPDX-License-Identifier: Apache-2.0
// The output folder of a run: nobody else can write there, and one run at a time does.
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

// Makes the folder and `log` in it, takes the lock, and removes what killed writers left.
// ErrorKind::permission: another user owns one of the two, or can write there; a link in the place of `log`.
// ErrorKind::busy: another run, which the message names, has held the lock for five seconds. Nothing is written then.
[[nodiscard]] Result<OutputFolder> open_output_folder(const std::filesystem::path& folder,
                                                      const std::string& holder);

// Removes what writers left that were killed. Does nothing where a run holds the lock, or none ever wrote there.
void clear_output_folder(const std::filesystem::path& folder);

// ErrorKind::invalid: a folder stands where the model is to be written, which would be found out after the training only.
[[nodiscard]] Result<void> check_place_of_model(const std::filesystem::path& model);

// How the recipe begins that a run leaves in its output folder, after the mark of a comment.
inline constexpr std::string_view kBestComment = "The best configuration of run ";

// ErrorKind::invalid: the recipe is the best.yaml of the output folder, and no run wrote it: the run would write its own
// in its place.
[[nodiscard]] Result<void> check_place_of_best(const std::filesystem::path& folder,
                                               const std::filesystem::path& recipe);

// What open_output_folder() and check_place_of_model() would refuse of what is there now; nothing is made or locked.
[[nodiscard]] Result<void> check_output_folder(const std::filesystem::path& folder);

// ErrorKind::invalid, at the key of the recipe: a file that model or data name is one that a run of it would write or replace in
// its output folder, such as model.weights: out/model.pt, or a pattern such as */* matches one, whether it is there yet or not; or
// the pattern matches the history. `trains`: the run does not end after the tuning.
[[nodiscard]] Result<void> check_input_files(const recipes::Recipe& recipe,
                                             const std::filesystem::path& history, bool trains);

// In the output folder: the state at the end of the training whose model lies there.
inline constexpr const char* kTrainingState = "training_state.pt";

// The best model of a run while it trains, model_best-RUN.pt, and the averages beside it, with `_ema`.
[[nodiscard]] std::array<std::filesystem::path, 2> best_models_of(
    const std::filesystem::path& folder, const std::string& run);

// Makes them model_best.pt and model_best_ema.pt, in place of those of an earlier training. What is not there has been
// renamed already, or no evaluation was better than those of the run that was extended.
[[nodiscard]] Result<void> publish_best_model(const std::filesystem::path& folder,
                                              const std::string& run);

// What becomes of the last checkpoint of a run once its model is in the folder: the state from which another run goes on, or
// nothing. The state of an earlier model goes in both cases; one that is newer
// than the checkpoint stays, and the checkpoint goes. A best model that was not published goes before it. Does nothing if the
// checkpoint has gone; what cannot be done
// is left for the next run. REQUIRES: the folder is locked.
void settle_checkpoint(const std::filesystem::path& folder, const std::string& run,
                       bool keeps_state);

}  // namespace autotuned::daemon
