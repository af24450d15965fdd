// SPDX-License-Identifier: Apache-2.0
// The result of an evaluation as JSON. No LibTorch here.
#pragma once

#include <optional>

#include "base/json.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {

// As `train` answers it (docs/trainer-protocol.md): test_accuracy, test_loss; where there is such a figure,
// test_top5_accuracy, test_classes and test_confusion. Without a result the first two are null.
[[nodiscard]] Json test_json(const std::optional<TestResult>& test);

}  // namespace autotuned::trainer
