// SPDX-License-Identifier: Apache-2.0
// Numbers of operators and spans that are open on a thread, and the listener that is told when they begin and end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autotuned::profiler {

// An operator of a Timeline or a span of a RecordedSteps that was open when the host made a call. 0: none.
using ScopeId = std::uint64_t;

// Indices into Timeline::threads and the events of that thread.
[[nodiscard]] constexpr ScopeId scope_of_operator(std::size_t thread, std::size_t event) {
  return ((static_cast<ScopeId>(thread) + 1) << 32U) | static_cast<std::uint32_t>(event);
}
[[nodiscard]] constexpr std::size_t thread_of_scope(ScopeId operation) {
  return static_cast<std::size_t>((operation >> 32U) - 1);  // REQUIRES: operation is not 0
}
[[nodiscard]] constexpr std::size_t event_of_scope(ScopeId operation) {
  return static_cast<std::uint32_t>(operation);
}
[[nodiscard]] constexpr ScopeId scope_of_span(std::size_t span) {
  return static_cast<ScopeId>(span) + 1;
}

// Receives the beginnings and ends of operators and spans, on the thread that runs them. They nest.
class ScopeListener {
 public:
  virtual ~ScopeListener() = default;
  virtual void enter_operator(ScopeId operation) noexcept = 0;
  virtual void leave_operator() noexcept = 0;
  virtual void enter_span(ScopeId span) noexcept = 0;
  virtual void leave_span() noexcept = 0;
};

}  // namespace autotuned::profiler
