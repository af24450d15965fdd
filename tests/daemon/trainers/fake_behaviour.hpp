// SPDX-License-Identifier: Apache-2.0
// What a fake trainer does: a model of its speed, and faults.
//
//   {"rate": 1000, "noise": 0.01, "seed": 1,
//    "reuse": {"device_batch": 4.0},                     rate by rung of the ceiling; others: unsupported
//    "factors": {"optimizer.set_to_none=on": 1.3},       rate by value of a knob
//    "one_time": {"input.cache=prefix": [2000, 64]},     what blocks tell of filling: nanoseconds and samples
//    "prepare_lasts_ms": {"mine.skip=on": 1500},         of real time, to switch to that value
//    "not_equal": ["precision.autocast=bf16"],           trains another model bit for bit
//    "updates": {"precision.autocast=bf16": {"norm_ratio": 3.0, "cosine": 0.2}},
//    "late_not_equal": [...],                            the same, only from a state that was reached
//    "test_losses": {"mine.skip=on": 0.9},               of the test data that a check evaluates; else 0.5
//    "metrics": {...}, "knobs": [...], "protocol": 1, "train_steps": 10,
//    "trace": "/path/to/rank0.pt.trace.json.gz",         that `trace` answers with; else two steps on a CPU
//    "notes": ["..."],                                   of that answer
//    "lock": "/path/to/measurement.lock",                the record then tells whether somebody holds it: "is_locked"
//    "parameter_bytes": 1e15,                            of its model; else 400
//    "damaged": 2,                                       files that `load` and `run` tell of
//    "hangs_after_hello": 1,                             reads nothing
//    "block_lasts_ms": 20,                               of real time; else none
//    "train_step_lasts_ms": 20,                          likewise
//    "training_ns": 2e10,                                that its trainings are said to have taken; else 1000
//    "tells_checkpoints": 1,                             reports each checkpoint of a training
//    "device": "cuda:0", "uuids": ["00ff"],              that it trains on, and of its GPUs; else a CPU
//    "faults": [{"do": "exit", "code": 3, ...}]}
//
// A fault happens at every request that fits all of its conditions: "at" (the N-th line of the
// record, counted over all trainers of a test from 1), "request" (its name; "hello" before the
// greeting, "train_step" before a step of training), "step" (of training), "when" (values of knobs,
// as text), "once". What it may "do" is in fake_trainer.cpp; what it "says" beside ends its line in the log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/configuration.hpp"
#include "base/json.hpp"

namespace autotuned {

class FakeBehaviour {
 public:
  explicit FakeBehaviour(const std::filesystem::path& file);

  [[nodiscard]] double number(const char* field, double otherwise) const;
  [[nodiscard]] std::string device() const { return behaviour_.value("device", "cpu"); }
  [[nodiscard]] Json uuids() const { return behaviour_.value("uuids", Json::array()); }
  [[nodiscard]] Json knobs() const;
  [[nodiscard]] Json metrics(const Json& configuration) const;
  // Samples per second of the next block; 0: it cannot reuse that.
  [[nodiscard]] double rate(const Json& configuration, const std::string& reuse) const;
  // [nanoseconds, samples]
  [[nodiscard]] Json one_time(const Json& configuration) const;
  [[nodiscard]] int prepare_lasts_ms(const Json& configuration) const;
  // Adds to a block what a check asks of the test data.
  [[nodiscard]] Json with_test(const Json& request, const Json& configuration, Json block) const;
  // `base` is the state from which the steps were made.
  [[nodiscard]] Json comparison(const Json& candidate, const std::string& base) const;
  // The bytes of a trace.
  [[nodiscard]] std::string trace() const;
  [[nodiscard]] Json notes() const { return behaviour_.value("notes", Json::array()); }

  [[nodiscard]] std::filesystem::path gate() const { return record_.parent_path() / "gate"; }

  // Records the request; the fault that is due, or null.
  Json fault_at(const std::string& request, const Json& configuration, const Json& fields);

 private:
  // Counts the lines of the record so far, those of other trainers too.
  std::int64_t count_lines();

  std::filesystem::path record_;
  Json behaviour_;
  std::int64_t line_ = 0;  // the last one written
  // The part that is counted already: a run has hundreds of requests, and a test may have many runs.
  std::uint64_t counted_inode_ = 0;
  std::int64_t counted_bytes_ = 0;
  std::int64_t counted_lines_ = 0;
};

// Empty when there is no such file.
[[nodiscard]] std::string read_text(const std::filesystem::path& file);
void write_text(const std::filesystem::path& file, const std::string& text);
[[nodiscard]] int parent_of(int process);

// Gives the main thread of each another policy than it has: one that any user may choose.
void change_policies(const std::vector<int>& processes);
// A child stops and continues this process. It closes `descriptor` first.
void let_child_stop_this_process(int descriptor);
// Starts a child that sleeps for ever, out of the group, with all that this process inherited but `descriptor`.
void leave_orphan(int descriptor);

}  // namespace autotuned
