// SPDX-License-Identifier: Apache-2.0
// In which part of the training the host is, as far as a trace tells.
#pragma once

#include <array>
#include <cstddef>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// `forward` has the loss; `elsewhere` is what none of the others is known to be.
enum class CpuPhase { forward, backward, optimizer, elsewhere };
inline constexpr std::size_t kCpuPhases = 4;
[[nodiscard]] const char* to_string(CpuPhase phase);

// Moments on any thread of the host; no moment is in two of them, and `elsewhere` is empty.
// optimizer: events that torch.optim names "Optimizer.…". backward: nodes of autograd's graph, and annotations of that
// name. forward: calls of modules, operators that a node of the backward pass names by its sequence number, annotations
// "forward" and "loss"; forward that runs again inside of the backward pass belongs to that.
[[nodiscard]] std::array<Intervals, kCpuPhases> cpu_phases(const traces::Trace& trace);

}  // namespace autotuned::analysis
