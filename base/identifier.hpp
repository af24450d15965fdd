// SPDX-License-Identifier: Apache-2.0
// Identities that cannot be mixed up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace autotuned {

// A run, as people see it: "r-20261121-7f3a9c". Unique per history.
struct RunId {
  std::string text;
  friend bool operator==(const RunId&, const RunId&) = default;
};

// A trial within its run, counted from 1; shown as "r-20261121-7f3a9c.3".
struct TrialId {
  RunId run;
  int number = 0;
  [[nodiscard]] std::string text() const { return run.text + "." + std::to_string(number); }
  friend bool operator==(const TrialId&, const TrialId&) = default;
};

// A new id from the time and 24 random bits of the system's generator.
[[nodiscard]] RunId make_run_id(std::int64_t unix_time_ns);
// Whether `text` has the form of the ids that make_run_id() makes. No other may become the name of a file.
[[nodiscard]] bool is_run_id(std::string_view text);

}  // namespace autotuned
