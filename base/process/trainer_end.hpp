// SPDX-License-Identifier: Apache-2.0
// How a trainer ended early, and the evidence for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace autotuned {

// Names are stored and printed: never change one. A trainer without an outcome did its work.
enum class TrainerOutcome {
  out_of_device_memory,  // it said so, and trains on a GPU
  out_of_host_memory,    // it said so, used more than its limit, or the kernel killed it for that
  crashed,               // by a signal of its own making, such as SIGSEGV
  exited,                // by itself, without being asked
  hung,                  // gave no answer in time
  lost,                  // killed from outside, or what it sent was no valid frame
  cancelled,             // the run was cancelled, and the trainer did not stop in time
};
[[nodiscard]] std::string_view to_string(TrainerOutcome outcome);
[[nodiscard]] std::optional<TrainerOutcome> trainer_outcome_from(std::string_view name);

struct TrainerEnd {
  TrainerOutcome outcome = TrainerOutcome::lost;
  std::string request;              // the one it was answering; "hello" before the first
  bool has_told = false;            // it answered with an error and may live on
  std::optional<int> exit_code;     // when it had ended by then: one of the two
  std::optional<int> signal;        // ...
  std::int64_t oom_kills = 0;       // processes that the kernel killed meanwhile for want of memory
  std::int64_t resident_bytes = 0;  // at the last look; 0: there was none
  std::int64_t ended_unix_ns = 0;

  // Without outcome and time, which have columns of their own in the history.
  [[nodiscard]] Json evidence() const;
  // Fields that are missing keep their defaults.
  void take_evidence(const Json& evidence);
  // "crashed during 'run': signal 11 (Segmentation fault)".
  [[nodiscard]] std::string text() const;
};

}  // namespace autotuned
