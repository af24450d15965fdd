// SPDX-License-Identifier: Apache-2.0
// The page of a trace that a run recorded: timeline, flame graph, memory, operators.
#pragma once

#include <functional>
#include <string>

#include "daemon/web/web_message.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// `which` is "start" or "best". A child does the reading (`analyze --html`), so that a damaged or large trace costs the
// daemon nothing; it is ended when `is_stopped` says so, or after a minute. An error is told where the run has no such trace
// any more: the next run in the same output folder writes its own.
[[nodiscard]] WebAnswer trace_page(const storage::RunRow& run, const std::string& which,
                                   const std::function<bool()>& is_stopped);

}  // namespace autotuned::daemon
