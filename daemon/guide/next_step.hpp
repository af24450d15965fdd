// SPDX-License-Identifier: Apache-2.0
// Suggests the next commands, from what the folder and the history hold.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "storage/history.hpp"

namespace autotuned::daemon {

// The recipes, scripts and data in a folder.
struct FolderState {
  std::vector<std::string> recipes;  // files in the folder that can be run as far as a look tells
  std::vector<std::string> faulty_recipes;  // others, in which `autotuned check` finds mistakes
  std::vector<std::string> scripts;         // in Python, that train with PyTorch
  std::string data;                   // "1,200 pictures in 12 classes"; empty: nothing to train on
  std::filesystem::path folder = {};  // absolute; empty: not known
  // When each of `recipes` was last written; without those of which it is not known.
  std::map<std::string, std::int64_t> written_unix_ns = {};
};

// Returns whether a recipe has no mistakes, as far as this is known without a trainer.
using IsSoundRecipe = std::function<bool(const std::filesystem::path& recipe)>;

// Looks at no more than some thousand names, so that the answer comes at once. A folder that cannot be read gives an
// empty state. Without `is_sound` every recipe counts as sound. A script counts if its code imports torch and calls
// `.backward(` or `.fit(`.
[[nodiscard]] FolderState examine_folder(const std::filesystem::path& folder,
                                         const IsSoundRecipe& is_sound = {});

struct KnownRuns {
  std::string
      text;  // "12 runs, the last r-20261123-0677b5 of photos: finished, 1.50 x (1.40 to 1.60)"
  std::optional<storage::RunRow> last;  // the newest
  // Of recipes, the newest first: those that a command could go on with. One whose output folder a newer run has finished in
  // is left out.
  std::vector<storage::RunRow> stopped = {};
};

// Reads the history in `file` (empty: the default path). If it cannot be read, `text` says so.
[[nodiscard]] KnownRuns known_runs(const std::filesystem::path& file);

struct NextStep {
  std::string command;
  std::string why;
};

// Returns one to four steps. `last` is the newest run of the history; nothing if there is none. If that was not stopped,
// the first of `stopped` whose recipe lies below the folder is gone on with. The recipe that `last` has trained is run
// again only if its file was written after that run had begun.
[[nodiscard]] std::vector<NextStep> next_steps(const FolderState& here,
                                               const std::optional<storage::RunRow>& last,
                                               const std::vector<storage::RunRow>& stopped = {});

// One line for each step; the first begins with the label "next", nine columns wide.
[[nodiscard]] std::string next_steps_text(const std::vector<NextStep>& steps);

// "recipe.yaml, train.py, 400 pictures in 10 classes"; "nothing to train on".
[[nodiscard]] std::string folder_state_text(const FolderState& here);

}  // namespace autotuned::daemon
