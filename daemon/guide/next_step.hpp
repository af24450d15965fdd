// SPDX-License-Identifier: Apache-2.0
// What somebody types next, by what lies in the folder and by what the history holds.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "storage/history.hpp"

namespace autotuned::daemon {

// What a folder holds that can be run or trained on.
struct FolderState {
  std::vector<std::string> recipes;  // files in the folder that can be run as far as a look tells
  std::vector<std::string> faulty_recipes;  // others, in which `autotuned check` finds mistakes
  std::vector<std::string> scripts;         // in Python, that train with PyTorch
  std::string data;  // "1,200 pictures in 12 classes"; empty: nothing to train on
};

// Whether a recipe is without mistakes, as far as that is known without a trainer.
using RecipeLook = std::function<bool(const std::filesystem::path& recipe)>;

// A folder that cannot be read holds nothing. Some thousand names are looked at, so that the answer comes at once. Without
// `is_sound` every recipe is. A script is one whose code imports torch and calls `.backward(` or `.fit(`.
[[nodiscard]] FolderState look_around(const std::filesystem::path& folder,
                                      const RecipeLook& is_sound = {});

struct KnownRuns {
  std::string
      text;  // "12 runs, the last r-20261123-0677b5 of photos: finished, 1.50 x (1.40 to 1.60)"
  std::optional<storage::RunRow> last;  // the newest
};

// Of the history in `file`, or in the default place if that is empty. One that cannot be read is said to be so.
[[nodiscard]] KnownRuns known_runs(const std::filesystem::path& file);

struct NextStep {
  std::string command;
  std::string why;
};

// Two to four. `last` is the newest run of the history; nothing where there is none.
[[nodiscard]] std::vector<NextStep> next_steps(const FolderState& here,
                                               const std::optional<storage::RunRow>& last);

// As lines under one another; the first begins with "next" in nine columns.
[[nodiscard]] std::string next_steps_text(const std::vector<NextStep>& steps);

// "recipe.yaml, train.py, 400 pictures in 10 classes"; "nothing to train on".
[[nodiscard]] std::string folder_state_text(const FolderState& here);

}  // namespace autotuned::daemon
