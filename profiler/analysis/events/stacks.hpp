// SPDX-License-Identifier: Apache-2.0
// The places in the program from which operators were called: the stack of Python functions around each call (with_stack=True), or the
// stack that TorchScript's interpreter wrote with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/traces/name_table.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

inline constexpr std::uint32_t kNoStack = traces::kNoDetail;

// The largest depth of Python functions that is kept, here and in flame.hpp; deeper calls count as part of
// the function at this depth. An invalid trace may nest a million.
inline constexpr int kDeepestCall = 200;

// One function of a stack. Stacks that begin alike share their outer frames.
struct StackFrame {
  traces::NameId name = 0;          // id in Stacks::names
  std::uint32_t caller = kNoStack;  // its index is smaller
  int depth = 0;
};

// The stacks of all operators of a trace, as a tree.
struct Stacks {
  traces::NameTable names;
  std::vector<StackFrame> frames;
  std::vector<std::uint32_t> of_row;  // for each row of Events: innermost frame, or kNoStack
  bool has_any = false;
};

// Returns the stack of each operator. A node of the backward pass, and everything that it calls, has the stack of the
// operator that created it (forward_threads.hpp), followed by the frame "(backward)", because its own thread
// only knows what started the pass. Built-in functions of Python are not frames: each repeats the operator
// below it. Empty if the trace was read without stacks.
[[nodiscard]] Stacks stacks_of(const traces::Trace& trace);

// "model.py(12): forward ← train.py(30): main": at most `most_frames` frames, the innermost first. REQUIRES:
// `frame` is of `stacks`.
[[nodiscard]] std::string stack_text(const Stacks& stacks, std::uint32_t frame,
                                     int most_frames = 16);

// Whether the name is that of a built-in function of Python: "<built-in method conv2d of …>".
[[nodiscard]] bool is_built_in(const std::string& function);

// Indices of Trace::python_calls by thread and time; a caller comes before its callees.
[[nodiscard]] std::vector<std::uint32_t> python_calls_in_order(const traces::Trace& trace);

}  // namespace autotuned::analysis
