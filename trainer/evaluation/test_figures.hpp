// SPDX-License-Identifier: Apache-2.0
// The result of an evaluation as JSON. No LibTorch here.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.hpp"
#include "trainer/evaluation/test_result.hpp"

namespace autotuned::trainer {

// The figures in the answer to `train` (docs/trainer-protocol.md): test_accuracy, test_loss; if there is such a figure,
// test_top5_accuracy, test_classes and test_confusion, or test_mae, test_r2 and test_targets, or test_f1,
// test_precision, test_recall and test_tags, or for masks test_miou, test_classes and test_confusion of pixels, or for
// tokens test_perplexity and test_bits_per_byte. Without a result the first two are null; test_accuracy is null with
// numbers and tags.
[[nodiscard]] Json test_json(const std::optional<TestResult>& test);

// The `evaluation` of a progress frame: epoch, samples, loss and the figures that stand for all samples.
[[nodiscard]] Json evaluation_frame(const TestResult& test, std::int64_t epoch);

}  // namespace autotuned::trainer
