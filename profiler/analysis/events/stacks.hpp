// SPDX-License-Identifier: Apache-2.0
// Where in the program operators were called from: the stack of Python functions around each call
// (with_stack=True), or the one that TorchScript's interpreter wrote with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/traces/name_table.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

inline constexpr std::uint32_t kNoStack = traces::kNoDetail;

// Of functions of Python and what they call, here and in flame.hpp: what is called deeper is part of the one at
// this depth. A hostile trace may nest a million.
inline constexpr int kDeepestCall = 200;

// One function of a stack. Stacks that begin alike share their outer frames.
struct StackFrame {
  traces::NameId name = 0;          // of Stacks::names
  std::uint32_t caller = kNoStack;  // stands before it
  int depth = 0;
};

struct Stacks {
  traces::NameTable names;
  std::vector<StackFrame> frames;
  std::vector<std::uint32_t> of_row;  // by row of Events: the innermost frame, or kNoStack
  bool has_any = false;
};

// A node of the backward pass, and all that it calls, has the stack in which the operator was called that made it
// (forward_threads.hpp), and below it the frame "(backward)": its own thread knows only who started the pass.
// Functions that are built into Python are no frames: each is the operator once more.
// All empty where the trace was read without stacks.
[[nodiscard]] Stacks stacks_of(const traces::Trace& trace);

// "model.py(12): forward ← train.py(30): main": the innermost first, and at most so many.
// REQUIRES: `frame` is of `stacks`.
[[nodiscard]] std::string stack_text(const Stacks& stacks, std::uint32_t frame,
                                     int most_frames = 16);

// Whether a call of this name is one that is built into Python: "<built-in method conv2d of …>".
[[nodiscard]] bool is_built_in(const std::string& function);

// Indices of Trace::python_calls by thread and time, whatever holds another before it.
[[nodiscard]] std::vector<std::uint32_t> python_calls_in_order(const traces::Trace& trace);

}  // namespace autotuned::analysis
