// SPDX-License-Identifier: Apache-2.0
// The log of a training: a JSON object in each line, in the order in which the trainer told it.
//
//   {"run": "r-…", "unix_ns": …, "step": 100, "epoch": 1, "samples": 12800, "samples_per_second": 5120.0, "learning_rate": 0.01,
//    "loss": 0.51}
//   {"run": "r-…", "unix_ns": …, "step": 120, "samples": 15360, "epoch": 1, "test_accuracy": 0.87, "test_loss": 0.36}
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// Its place in the folder `log` of a run's output.
inline constexpr const char* kTrainingLog = "training.jsonl";

// Writes while a run trains. Each line is with the system when add() returns. A training of days has lines for its whole
// length: they come at most once in a second, and less often the longer it has gone on. Evaluations always come.
class TrainingLog {
 public:
  // Goes on behind what the same run has written; what another run has written is dropped. A run that goes on with the training
  // of those `before` it drops nothing. A link or a pipe in the place of the file is removed, and what it leads to stays as it is.
  [[nodiscard]] static Result<TrainingLog> open(const std::filesystem::path& file,
                                                const std::string& run,
                                                const std::vector<std::string>& before = {});

  // What a trainer tells while it trains (docs/trainer-protocol.md); what is neither a step nor an evaluation is passed
  // over. `now` is monotonic. False when it cannot be written, from then on.
  bool add(const Json& progress, std::int64_t unix_ns, std::chrono::nanoseconds now);

 private:
  TrainingLog(std::ofstream stream, std::string run)
      : stream_(std::move(stream)), run_(std::move(run)) {}

  std::ofstream stream_;
  std::string run_;
  std::int64_t step_ = 0;                // the last one that was told
  std::optional<std::int64_t> samples_;  // after it, where it said so
  bool has_begun_ = false;
  std::chrono::nanoseconds begun_{0};
  std::chrono::nanoseconds written_{0};  // the last step
};

// The lines of this run, and of the runs `before` it, whose training it goes on with. Where a training went on from a checkpoint, what it had made beyond that is left out. No file, and
// lines that cannot be read, are nothing: a kill may have cut the last one.
[[nodiscard]] std::vector<Json> read_training_log(const std::filesystem::path& file,
                                                  const std::string& run,
                                                  const std::vector<std::string>& before = {});

}  // namespace autotuned::daemon
