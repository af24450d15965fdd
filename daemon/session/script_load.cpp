// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/script_load.hpp"

#include <unistd.h>

#include <string>

namespace autotuned::daemon {

MachineState machine_beside_script(const Json& hello) {
  const auto script = get_integer(hello, "pid").value_or(0);
  return read_machine_state_below("", {::getppid(), static_cast<int>(script)});
}

Result<void> record_load(storage::History& history, const storage::RunRow& run,
                         const MachineState& before, const MachineState& after,
                         std::int64_t unix_ns) {
  for (const MachineFinding& finding : findings_between(before, after, /*gpu=*/"")) {
    if (finding.subject != "load") continue;
    const std::string text = finding.subject + ": " + finding.text;
    storage::PluginAnswerRow row;
    row.plugin = storage::kMachineName;
    row.kind = storage::AnswerKind::machine;
    row.subject = finding.subject;
    row.asked_unix_ns = unix_ns;
    if (auto stored = history.put_plugin_asked(run.id, row); !stored) return stored;
    auto stored = history.put_plugin_answered(run.id, row.plugin, text, false);
    if (!stored) return stored;
  }
  return {};
}

}  // namespace autotuned::daemon
