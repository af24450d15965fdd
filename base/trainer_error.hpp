// SPDX-License-Identifier: Apache-2.0
// Errors in the frames of the trainer protocol (docs/trainer-protocol.md).
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned {

// The `error` of an answer, and what it says. Whether a measurement was disturbed is not sent.
[[nodiscard]] Json to_json(const Error& error);
[[nodiscard]] Error trainer_error_from(const Json& error);

}  // namespace autotuned
