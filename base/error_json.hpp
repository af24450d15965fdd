// SPDX-License-Identifier: Apache-2.0
// Errors in frames: of the trainer protocol (docs/trainer-protocol.md) and of the daemon's (docs/daemon.md).
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned {

// The `error` of an answer, and what it says; of what is none: ErrorKind::internal. Whether a measurement was
// disturbed is not sent.
[[nodiscard]] Json to_json(const Error& error);
[[nodiscard]] Error error_from_json(const Json& error);

}  // namespace autotuned
