// SPDX-License-Identifier: Apache-2.0
// Records the load of other programs while a script is tuned. The rates of a disturbed run are no part of a trend
// (`autotuned history --trend`).
#pragma once

#include <cstdint>

#include "base/json.hpp"
#include "base/machine/machine_state.hpp"
#include "base/result.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// The state of the machine, without GPUs: asking them takes time, and the script may be waiting. The script that sent
// `hello` and our parent, which has started it, count as our own load.
[[nodiscard]] MachineState machine_beside_script(const Json& hello);

// Stores the finding about load between two states, if there is one. Errors: those of the history.
Result<void> record_load(storage::History& history, const storage::RunRow& run,
                         const MachineState& before, const MachineState& after,
                         std::int64_t unix_ns);

}  // namespace autotuned::daemon
