// SPDX-License-Identifier: Apache-2.0
// The list that `history` prints.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "storage/history.hpp"

namespace autotuned::daemon {

// A table of runs with notes below it. It shortens the start times, rates and long names as far as needed to fit
// `columns`; 0: no terminal, nothing is shortened. `unconfirmed`: the ids of runs with lacks_confirmation().
[[nodiscard]] std::string run_list_text(const std::vector<storage::RunRow>& runs, int columns,
                                        const std::set<std::string>& unconfirmed = {});

}  // namespace autotuned::daemon
