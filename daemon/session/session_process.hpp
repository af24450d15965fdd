// SPDX-License-Identifier: Apache-2.0
// The session process: tunes and trains one run. It recovers from no crash: the supervisor starts it again, and
// everything that matters is in the history.
#pragma once

namespace autotuned::daemon {

// Takes a SessionRequest as the first frame on `control`, then reports events as frames on it until the
// run has ended; listens there for {"request": "cancel"}. The last event is `result`, with the exit code
// of the command. Returns the process's exit code: 0 when a result was reported.
[[nodiscard]] int run_session_process(int control);

}  // namespace autotuned::daemon
