// SPDX-License-Identifier: Apache-2.0
// Passes the results of earlier runs of a job to a run that is about to be tuned, and stores its result for later ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "daemon/session/plugin_advisors.hpp"
#include "storage/history.hpp"
#include "tuner/session.hpp"

namespace autotuned::daemon {

// The greatest number of earlier trials that plugins get.
inline constexpr std::int64_t kHistoryTrials = 200;

// The environments of this machine for which a best configuration of the job is stored; that of the newest run first.
[[nodiscard]] Result<std::vector<std::string>> best_environments(const storage::History& history,
                                                                 const std::string& recipe_hash,
                                                                 const Machine& machine);
// The best configuration of the first of these environments that can be read.
[[nodiscard]] Result<std::optional<storage::BestRow>> find_best(const storage::History& history,
                                                                const std::string& recipe_hash,
                                                                const Machine& machine);

// Adds to `input`, whose recipe, job facts, knobs and earlier trials are set: the settings that are refused since an
// extension or the check of an earlier training failed with them, and the remembered best configuration. That one is
// left out for a run that was begun to search anew; its unknown knobs are left out, and its changes whose one-time cost
// this training does not repay. `plugins` are the plugins of this run, by name. If this run goes on with the search that
// found the best configuration, the text that is returned says why: that search was cut short, lacked a plugin, or was
// for a training of another length. Else the text is empty.
[[nodiscard]] Result<std::string> add_known_best(
    const storage::History& history, const storage::RunRow& run,
    const std::map<std::string, PluginIdentity>& plugins, tuner::SessionInput& input);

// Stores what the tuning of `run` found. The result of an earlier run stays if this run did not search, or if its time
// ended before the verification decided and it found nothing else. Returns a message about that, or an empty text.
[[nodiscard]] Result<std::string> keep_best(storage::History& history, const storage::RunRow& run,
                                            const tuner::SessionOutcome& outcome,
                                            std::int64_t now_unix_ns);

// To be called if the check after the training failed, or if the training went on without extensions. The settings to
// blame are not offered to later runs of this job, and a remembered best configuration with some of them is forgotten.
[[nodiscard]] Result<void> refuse_best(storage::History& history, const storage::RunRow& run);

}  // namespace autotuned::daemon
