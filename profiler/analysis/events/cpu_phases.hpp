// SPDX-License-Identifier: Apache-2.0
// The phase of the training that the host is in, as far as a trace shows it.
#pragma once

#include <array>
#include <cstddef>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// `forward` includes the loss. `elsewhere` is time that is known to be in no other phase.
enum class CpuPhase { forward, backward, optimizer, elsewhere };
inline constexpr std::size_t kCpuPhases = 4;
[[nodiscard]] const char* to_string(CpuPhase phase);

// Returns the moments of each phase on any thread of the host. No moment is in two phases; `elsewhere` is empty.
//
// - optimizer: events that torch.optim names "Optimizer.…"
// - backward: nodes of autograd's graph, and annotations of that name
// - forward: calls of modules, operators whose sequence number a node of the backward pass names, and
//   annotations "forward" and "loss". A forward pass that runs again inside the backward pass belongs to
//   backward.
[[nodiscard]] std::array<Intervals, kCpuPhases> cpu_phases(const traces::Trace& trace);

}  // namespace autotuned::analysis
