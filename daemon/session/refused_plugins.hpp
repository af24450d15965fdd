// SPDX-License-Identifier: Apache-2.0
// Plugins that a run was to have and cannot use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plugins/host/loader.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// Puts each refused plugin on record as one that is left out of the run, with the reason, and says so in
// sentences; likewise each that `named` (tune.plugins) asks for and this machine does not support. Where
// `named` is a list, refused plugins that it lacks are nobody's concern. What is on record is not told again.
[[nodiscard]] Result<std::vector<std::string>> record_refused_plugins(
    storage::History& history, const RunId& run, const std::vector<plugins::FoundPlugin>& found,
    const std::optional<std::vector<std::string>>& named, std::int64_t now_unix_ns);

}  // namespace autotuned::daemon
