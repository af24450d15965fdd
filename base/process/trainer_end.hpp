// SPDX-License-Identifier: Apache-2.0
// How a trainer ended early, and the evidence for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace autotuned {

// How a trainer ended early. The names are stored and printed: never change one. A trainer that ended after its work was done has
// no outcome.
enum class TrainerOutcome {
  out_of_device_memory,  // the trainer reported it, and trains on a GPU
  out_of_host_memory,    // the trainer reported it, exceeded its limit, or was killed by the kernel
  crashed,               // ended by a signal that its own code raised, such as SIGSEGV
  exited,                // exited without being asked to do so
  hung,                  // gave no answer in time
  lost,                  // killed from outside, or sent an invalid frame
  cancelled,             // the run was cancelled, and the trainer did not stop in time
};
[[nodiscard]] std::string_view to_string(TrainerOutcome outcome);
[[nodiscard]] std::optional<TrainerOutcome> trainer_outcome_from(std::string_view name);

// An early end of a trainer.
struct TrainerEnd {
  TrainerOutcome outcome = TrainerOutcome::lost;
  std::string request;  // the request that the trainer was answering; "hello" before the first one
  bool has_told = false;         // the trainer reported the error itself and may still run
  std::optional<int> exit_code;  // if the process exited
  std::optional<int> signal;     // if a signal ended the process
  // Processes that the kernel killed during the request because memory ran out.
  std::int64_t oom_kills = 0;
  std::int64_t resident_bytes = 0;  // at the last measurement; 0: not measured
  std::int64_t ended_unix_ns = 0;

  // Returns all fields except outcome and time, which have columns of their own in the history.
  [[nodiscard]] Json evidence() const;
  // Reads the fields of evidence(). Missing fields keep their defaults.
  void take_evidence(const Json& evidence);
  // "crashed during 'run': signal 11 (Segmentation fault)".
  [[nodiscard]] std::string text() const;
};

}  // namespace autotuned
