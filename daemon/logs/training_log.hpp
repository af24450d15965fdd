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

// The name of the file in the folder `log` of a run's output.
inline constexpr const char* kTrainingLog = "training.jsonl";

// Writes while a run trains. Each line is with the system when add() returns. A training of days has lines for its whole
// length: they come at most once in a second, and less often the longer it has gone on. Evaluations always come.
class TrainingLog {
 public:
  // Appends to the lines of the same run; lines of other runs are dropped. A run that goes on with the training of the
  // runs `before` it drops nothing. A link or pipe at this path is removed; the target of a link stays unchanged.
  [[nodiscard]] static Result<TrainingLog> open(const std::filesystem::path& file,
                                                const std::string& run,
                                                const std::vector<std::string>& before = {});

  // Adds a progress message of a trainer (docs/trainer-protocol.md), if it is a step or an evaluation. `now` is
  // monotonic. After the first failure to write, returns false and writes nothing more.
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

// Returns the lines of this run, and of the runs `before` it, whose training it continues. If a training went on from a
// checkpoint, its earlier lines beyond that step are left out. A missing file gives no lines. Unreadable lines are
// skipped: a kill may have cut the last one.
[[nodiscard]] std::vector<Json> read_training_log(const std::filesystem::path& file,
                                                  const std::string& run,
                                                  const std::vector<std::string>& before = {});

}  // namespace autotuned::daemon
