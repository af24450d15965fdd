// SPDX-License-Identifier: Apache-2.0
// Totals of tensor operators, as plain data: no LibTorch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autotuned::profiler {

// The calls of an operator within one span.
struct OperatorTotal {
  std::string name;  // "aten::addmm"
  std::string span;  // innermost span of the thread at the call; empty on other threads
  std::int64_t calls = 0;
  std::int64_t total_ns = 0;
  std::int64_t self_ns = 0;  // without the operators that it called

  friend bool operator==(const OperatorTotal&, const OperatorTotal&) = default;
};

// Returns the sums over all spans, with empty `span`: at most `limit` rows (0: all), the largest self time first.
[[nodiscard]] std::vector<OperatorTotal> by_name(const std::vector<OperatorTotal>& operators,
                                                 std::size_t limit);

// Whether the operator is a matrix product or a convolution, forward or backward: those that 16-bit arithmetic speeds up.
[[nodiscard]] bool is_gemm_or_convolution(const std::string& name);

// Whether the operator is gather or an autograd node of its backward (LibTorch's own, and that of the trainer's row selection). None of
// them calls another, so their total times add up.
[[nodiscard]] bool is_gather(const std::string& name);

}  // namespace autotuned::profiler
