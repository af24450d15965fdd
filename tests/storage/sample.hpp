// SPDX-License-Identifier: Apache-2.0
// What the tests of the history share: rows with every field set, and children.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "storage/history.hpp"

namespace autotuned::storage {

// The names of the files in a folder, sorted.
[[nodiscard]] std::vector<std::string> names_in(const std::filesystem::path& folder);

[[nodiscard]] EnvironmentRow sample_environment(const std::string& key = "e1");
[[nodiscard]] RecipeRow sample_recipe(const std::string& hash = "h1");
[[nodiscard]] RunRow sample_run(const std::string& id = "r-20261121-7f3a9c");
[[nodiscard]] TrialRecord sample_trial(int number = 1);
[[nodiscard]] TrialBlock sample_block(int pair = 1);
[[nodiscard]] FindingRecord sample_finding(const std::string& id = "data_loading");

// As JSON text, so that a test can compare whole rows (NaN is null and equals NaN).
[[nodiscard]] std::string text_of(const RunRow& run);
[[nodiscard]] std::string text_of(const TrialBlock& block);

// Throws the error, if there is one.
void must(const Result<void>& outcome);
// Opens for writing and stores sample_environment, sample_recipe and sample_run(id). Throws on errors.
[[nodiscard]] History open_with_run(const std::filesystem::path& file,
                                    const std::string& id = "r-20261121-7f3a9c");

// Stores sample_run(id) with this state, start, recipe and environment, which it stores too. Throws on errors.
void put_sample_run(History& history, const std::string& id, RunState state,
                    std::int64_t started_unix_ns, const std::string& recipe_hash = "h1",
                    const std::string& environment_key = "e1");

// Runs SQL on its own connection, outside the code under test. Throws on errors.
void run_sql(const std::filesystem::path& file, const std::string& sql);

// Takes from a history what version 14 added. Throws on errors.
void bring_back_to_version_13(const std::filesystem::path& file);

// Runs `work` in a forked child. The parent goes on; wait_for() gives the exit code, or minus the
// signal that ended it.
[[nodiscard]] int start_child(const std::function<int()>& work);
[[nodiscard]] int wait_for(int pid);

// The text that `work` returns in a child without root's rights, for which modes count. Files below
// `folder` are given to that user first.
[[nodiscard]] std::string as_ordinary_user(const std::filesystem::path& folder,
                                           const std::function<std::string()>& work);

}  // namespace autotuned::storage
