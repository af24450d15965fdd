// SPDX-License-Identifier: Apache-2.0
// The process that tunes a loop for a program that called `autotuned.session()`.
#pragma once

namespace autotuned::daemon {

// The command-line argument that starts this program as such a process.
inline constexpr const char* kAgentSession = "agent-session";

// Reads one line of JSON from standard input, a ScriptRequest with the number of the inherited socket to the agent:
//   {"name": "step", "command": ["step"], "content": "…", "budget_ns": 60000000000, "allow": ["numerics"], "agent": 7}
// The training is over at the next line, whatever it says, or when standard input ends. Says on standard error what
// `autotuned run` of a script says, and writes the events `run`, `tuned` and `untuned` on standard output, a line of
// JSON each. Returns the exit code of the process.
[[nodiscard]] int run_agent_session();

}  // namespace autotuned::daemon
