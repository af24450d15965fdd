// SPDX-License-Identifier: Apache-2.0
// Writes a recipe to start from, for the data in a folder, with comments on what was chosen.
#pragma once

#include <filesystem>
#include <string>

#include "daemon/guide/data_folder.hpp"

namespace autotuned::daemon {

struct StarterSpec {
  std::string name;              // of the job: starter_name()
  std::filesystem::path recipe;  // the file for it, as commands in its comments name it
  std::filesystem::path schema;  // the JSON Schema for editors; empty: the recipe names none
  bool has_gpu = false;          // pictures become larger
};

// Always returns a recipe: without data that can be trained on, it uses synthetic data.
[[nodiscard]] std::string starter_recipe(const DataFolder& data, const StarterSpec& spec);

// `text` as the name of a job: letters, digits, '-', '_' and '.', beginning with a letter.
[[nodiscard]] std::string starter_name(const std::string& text);

}  // namespace autotuned::daemon
