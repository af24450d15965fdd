// SPDX-License-Identifier: Apache-2.0
// Which knobs a job supports.
#pragma once

#include <string>
#include <vector>

namespace autotuned::trainer {

// The names of the knobs that Job::prepare() and Job::load() support.
[[nodiscard]] std::vector<std::string> supported_knobs();

}  // namespace autotuned::trainer
