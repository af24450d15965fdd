// SPDX-License-Identifier: Apache-2.0
// Which script a job is. Pure.
#pragma once

#include <string>

#include "daemon/common/session_request.hpp"

namespace autotuned::daemon {

// The identity of the job, 16 hexadecimal digits: the script's content and arguments, wherever it is stored, and this Python. The
// permissions belong to it, as in a recipe: a search that was complete without a permission is not complete with it.
[[nodiscard]] std::string identity_of(const ScriptRequest& script, const std::string& content,
                                      const std::string& python);

}  // namespace autotuned::daemon
