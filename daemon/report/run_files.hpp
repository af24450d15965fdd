// SPDX-License-Identifier: Apache-2.0
// What a run has left in its output folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "storage/history.hpp"

namespace autotuned::daemon {

// In `training` of a run: SHA-256 of its model.pt and model_ema.pt, by their names. Runs of older versions have none.
inline constexpr const char* kModelDigests = "model_sha256";

struct RunFile {
  std::filesystem::path path;
  std::int64_t size_bytes = 0;
  std::string what;  // "the trained model, a state dictionary"
};

struct RunFiles {
  std::vector<RunFile> files;  // that are there: results first, then logs
  // The run that has written its results into this folder since: then `files` are those with this run's name.
  // Empty where they are this run's, or nobody can tell.
  std::string other_run;
};

[[nodiscard]] RunFiles files_of(const storage::RunRow& run);

// A table, and who has the others now; empty where the folder is gone or has none.
[[nodiscard]] std::string files_text(const storage::RunRow& run);

}  // namespace autotuned::daemon
