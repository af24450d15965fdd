// SPDX-License-Identifier: Apache-2.0
// The predictions of a trainer (docs/trainer-protocol.md) as people and programs read them. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/json.hpp"

namespace autotuned::daemon {

// One picture: "cat 93.1 %, dog 6.8 %"; tags that are more likely than not; numbers; or the shares of the classes of a mask
// and its file. An output without a name is "class 3", "tag 3" or "number 3".
[[nodiscard]] std::string prediction_text(const Json& prediction,
                                          std::span<const std::string> names);

// The same with each output's `name` (null: it has only a number) beside its `number`, for the picture as it was named on
// the command line.
[[nodiscard]] Json prediction_json(const Json& prediction, const std::string& picture,
                                   std::span<const std::string> names);

}  // namespace autotuned::daemon
