// SPDX-License-Identifier: Apache-2.0
// Decides whether one of two workloads is faster, from pairs of timings that another process takes. The Python package
// measures (`autotuned.compare()`), and the statistics of trials decide (docs/statistics.md).
#pragma once

#include <istream>
#include <ostream>

namespace autotuned::daemon {

// The command-line argument that starts this program as a process that judges pairs.
inline constexpr const char* kPairsProcess = "pairs-process";

// Reads lines of JSON from `in` until it ends. The first one is the rules and has no answer:
//   {"min_gain_ratio": 0.02}
// Every other one is a pair of blocks, whose order a fair coin must have decided, and is answered on `out` at once:
//   {"a_seconds": 0.101, "a_calls": 40, "b_seconds": 0.084, "b_calls": 40}
//   {"pairs": 9, "ratio": 1.2, "low": 1.1, "high": 1.31, "a_per_second": 396.0, "b_per_second": 476.2,
//    "is_decided": true, "verdict": "faster"}
// `ratio` is the rate of B over that of A; an end of its interval that too few pairs have not shown yet is null.
// `verdict` is the verdict if no further pair came: faster, slower, no_gain, totals or undecided_in_time. Once
// `is_decided`, further pairs can only narrow the interval. An invalid line is answered with {"error": TEXT} and ends
// the function. Returns the exit code of the process.
[[nodiscard]] int judge_pairs(std::istream& in, std::ostream& out);

}  // namespace autotuned::daemon
