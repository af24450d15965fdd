// SPDX-License-Identifier: Apache-2.0
// Facts, profile and training of a job as JSON: the answers that docs/trainer-protocol.md describes. No LibTorch here.
#pragma once

#include "base/json.hpp"
#include "trainer/job/job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {

// The answer to `load`, without the UUID of the device.
[[nodiscard]] Json to_json(const JobFacts& facts);
// The answer to `profile`. It has at most 200 operators: those with the most time of their own.
[[nodiscard]] Json to_json(const JobProfile& profile);
// The answer to `train`. It includes what a user of the model must know of its input and outputs.
[[nodiscard]] Json to_json(const TrainingSummary& summary, const JobFacts& facts);

}  // namespace autotuned::trainer
