// SPDX-License-Identifier: Apache-2.0
// The files that a run has left in its output folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "storage/history.hpp"

namespace autotuned::daemon {

// A key of the result of `run --json`: the run whose best.yaml and summary.json a run that only tuned left in the output
// folder, because they describe the model there. Missing where the run has written its own.
inline constexpr const char* kFilesOf = "files_of";

// The key of RunRow::training for the SHA-256 of model.pt and model_ema.pt, by their names. Runs of older versions have
// none.
inline constexpr const char* kModelDigests = "model_sha256";

// The name of a file in each folder that `predict --masks` has made: what lies there are the answers of a model, and no
// data that were found.
inline constexpr const char* kPredictedMark = ".autotuned-predicted";

struct RunFile {
  std::filesystem::path path;
  std::int64_t size_bytes = 0;
  std::string what;  // "the trained model, a state dictionary"
};

struct RunFiles {
  std::vector<RunFile> files;  // that are there: results first, then logs
  // The run that has written its results into this folder since; `files` are then only those with this run's name.
  // Empty if the results are this run's, or if this is not known.
  std::string other_run;
};

[[nodiscard]] RunFiles files_of(const storage::RunRow& run);

// Whether its training has come to its end, so that it has left a model.
[[nodiscard]] bool has_trained(const storage::RunRow& run);

// The finished training whose model the summary in this output folder describes. If a run that only tunes wrote the
// summary: the newest finished training into the folder. Nothing if the history knows none.
[[nodiscard]] std::optional<storage::RunRow> owner_of_model(const storage::History& history,
                                                            const std::string& output_dir);

// A table of the files, and which run owns the others now; empty if the folder is gone or has no such files.
[[nodiscard]] std::string files_text(const storage::RunRow& run);

}  // namespace autotuned::daemon
