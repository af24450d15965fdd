// SPDX-License-Identifier: Apache-2.0
// The page of a trace that a run recorded: timeline, flame graph, memory, operators.
#pragma once

#include <functional>
#include <string>

#include "daemon/web/web_message.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// `which` is "start" or "best". A child process reads the trace (`analyze --html`), so that a damaged or
// large trace does not harm the daemon; it is ended if `is_stopped` returns true, or after a minute. The
// answer is an error if the run no longer has that trace: the next run in the same output folder replaces it.
[[nodiscard]] WebAnswer trace_page(const storage::RunRow& run, const std::string& which,
                                   const std::function<bool()>& is_stopped);

}  // namespace autotuned::daemon
