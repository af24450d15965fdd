// SPDX-License-Identifier: Apache-2.0
// Reads comparisons of updates and losses from the answers of trainers and scripts (docs/trainer-protocol.md).
#pragma once

#include <optional>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::daemon {

// An answer to `compare`, without steps, losses and inputs. A number that is missing or null reads as NaN.
// ErrorKind::invalid names a field that must be there.
[[nodiscard]] Result<tuner::UpdateComparison> comparison_from(const Json& answer);

// Reads a list of losses. An entry that is not a number reads as NaN.
[[nodiscard]] std::vector<double> losses_from(const Json& list);

// The `test` of a block of a check; nothing if it has none.
[[nodiscard]] std::optional<tuner::UpdateComparison::Test> test_from(const Json& block);

// A list of what the model was given, such as the `inputs` of a block.
[[nodiscard]] std::vector<tuner::UpdateComparison::StepInput> inputs_of(const Json& list);

}  // namespace autotuned::daemon
