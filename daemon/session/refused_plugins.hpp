// SPDX-License-Identifier: Apache-2.0
// Records the plugins that a run should use but cannot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plugins/host/loader.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// Records each refused plugin as left out of the run, with the reason, and returns sentences about them; also
// each plugin that `named` (tune.plugins) asks for and this machine does not support. If `named` is a list,
// refused plugins that it lacks are ignored. Nothing is reported that is recorded already.
[[nodiscard]] Result<std::vector<std::string>> record_refused_plugins(
    storage::History& history, const RunId& run, const std::vector<plugins::FoundPlugin>& found,
    const std::optional<std::vector<std::string>>& named, std::int64_t now_unix_ns);

}  // namespace autotuned::daemon
