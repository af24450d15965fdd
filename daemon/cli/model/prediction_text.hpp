// SPDX-License-Identifier: Apache-2.0
// The predictions of a trainer (docs/trainer-protocol.md) as people and programs read them. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/json.hpp"

namespace autotuned::daemon {

// Describes the prediction for one picture: classes ("cat 93.1 %, dog 6.8 %"), tags above 50 %, numbers, or the share
// of each class in a mask and the mask's file. An output without a name is "class 3", "tag 3" or "number 3".
[[nodiscard]] std::string prediction_text(const Json& prediction,
                                          std::span<const std::string> names);

// The prediction as JSON. Each output has its `name` (null if it has none) beside its `number`. `picture` is the path
// as it was given on the command line.
[[nodiscard]] Json prediction_json(const Json& prediction, const std::string& picture,
                                   std::span<const std::string> names);

// `name` with blanks behind it, up to `columns` columns of a terminal. A wider name stays as it is.
[[nodiscard]] std::string padded_to(std::string name, int columns);

}  // namespace autotuned::daemon
