// SPDX-License-Identifier: Apache-2.0
// Finds the trained model of a run by a name that a person gives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

struct TrainedModel {
  std::filesystem::path folder;  // absolute: the output folder
  std::string run;               // by its summary; empty: there is none
  std::string
      named_run;  // the run of the history that the name stands for; empty: it names a folder
  // The names of classes, tags or numbers, in the order of the outputs; empty: the outputs have no names.
  std::vector<std::string> names;
  std::vector<std::int64_t> sample_shape;  // of the model's input; empty: not known
  std::string stored_as;                   // JobFacts::stored_as of the training; empty: not known
  std::map<std::string, std::string> digests;  // SHA-256 of weights by file name; older runs: empty
  // The run as the history has it, where one that only tuned has replaced its summary and best.yaml.
  std::optional<storage::RunRow> owner;
};

// `name`: a run of the history, the beginning of one, or "last" for the newest run, whether or not it has a model; or an output
// folder, which comes first. ErrorKind::not_found or invalid: nothing answers to that name, the run has no model or one that
// takes tokens, or another run has written into its folder since. ErrorKind::corrupt: its summary is damaged.
[[nodiscard]] Result<TrainedModel> find_trained_model(const std::string& name,
                                                      const std::filesystem::path& history);

// The error about a model that takes tokens, trained or not. `where`: its run or its folder.
[[nodiscard]] Error tokens_error(std::string where);

// Adds to an error about the model that `name` stands for the newest run, and for which, if the name is "last".
[[nodiscard]] Error told_of_last(Error error, const std::string& name, const TrainedModel& model);

// That the model is of an earlier run than the named one, which has not written its own (yet) into their common folder; empty if it
// is that of the named run.
[[nodiscard]] std::string earlier_run_note(const TrainedModel& model);

// ErrorKind::corrupt if `weights`, a file in the folder of the model, is not as its run wrote it.
[[nodiscard]] Result<void> check_weights(const TrainedModel& model,
                                         const std::filesystem::path& weights);

}  // namespace autotuned::daemon
