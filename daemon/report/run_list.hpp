// SPDX-License-Identifier: Apache-2.0
// The list that `history` prints.
#pragma once

#include <string>
#include <vector>

#include "storage/history.hpp"

namespace autotuned::daemon {

// A table of runs, and below it what must be said of some. In a terminal of so many columns the days of the starts, the rates
// and long names give way; 0: no terminal, and nothing gives way.
[[nodiscard]] std::string run_list_text(const std::vector<storage::RunRow>& runs, int columns);

}  // namespace autotuned::daemon
