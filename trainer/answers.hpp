// SPDX-License-Identifier: Apache-2.0
// What a job says of itself, as the answers of docs/trainer-protocol.md have it. No LibTorch here.
#pragma once

#include "base/json.hpp"
#include "trainer/job/job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {

// Of `load`, without the UUID of the device.
[[nodiscard]] Json to_json(const JobFacts& facts);
// Of `profile`: of the operators those with the most time of their own, at most 200.
[[nodiscard]] Json to_json(const JobProfile& profile);
// Of `train`, with what whoever uses the model must know of its input and its outputs.
[[nodiscard]] Json to_json(const TrainingSummary& summary, const JobFacts& facts);

}  // namespace autotuned::trainer
