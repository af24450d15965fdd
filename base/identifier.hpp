// SPDX-License-Identifier: Apache-2.0
// Ids of runs and trials, as types that cannot be confused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace autotuned {

// Identifies a run in a history: "r-20261121-7f3a9c".
struct RunId {
  std::string text;
  friend bool operator==(const RunId&, const RunId&) = default;
};

// Identifies a trial by its run and its number in it, from 1. Shown as "r-20261121-7f3a9c.3".
struct TrialId {
  RunId run;
  int number = 0;
  [[nodiscard]] std::string text() const { return run.text + "." + std::to_string(number); }
  friend bool operator==(const TrialId&, const TrialId&) = default;
};

// Makes a new id from the time and 24 bits of the system's random generator.
[[nodiscard]] RunId make_run_id(std::int64_t unix_time_ns);
// Whether `text` has the form of an id that make_run_id() makes. Check it before the text becomes part of a file name.
[[nodiscard]] bool is_run_id(std::string_view text);

}  // namespace autotuned
