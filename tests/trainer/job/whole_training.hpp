// SPDX-License-Identifier: Apache-2.0
// What tests of a kind of target do with a small job: train it to the end, and compare steps under several configurations.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "tests/trainer/small_job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {

// `steps` steps of a check from the initial state, across the end of an epoch.
inline CheckedSteps checked_steps(Job& job, const Configuration& configuration,
                                  std::int64_t steps) {
  value_of(job.prepare(configuration));
  EXPECT_TRUE(job.restore("initial"));
  return value_of(job.check_steps({.steps = steps, .crosses_epoch = true}, never));
}

// That losses and labels, which follow from the loaded samples, are as in `expected`.
inline void expect_same_steps(const CheckedSteps& found, const CheckedSteps& expected) {
  EXPECT_EQ(found.block.losses, expected.block.losses);
  ASSERT_EQ(found.inputs.size(), expected.inputs.size());
  for (std::size_t i = 0; i < expected.inputs.size(); ++i)
    EXPECT_EQ(found.inputs[i].labels, expected.inputs[i].labels);
}

struct Trained {
  TrainingSummary summary;
  std::vector<Json> steps;        // reports of progress
  std::vector<Json> evaluations;  // one for each evaluation
};

// Trains to the end, with a report of every step.
inline Trained trained(Job& job, const std::filesystem::path& checkpoint) {
  Trained all;
  all.summary = value_of(train(
      job, {.checkpoint_path = checkpoint, .progress_every_ns = 0},
      [&](const Json& progress) {
        if (progress.contains("step")) all.steps.push_back(progress);
        if (progress.contains("evaluation")) all.evaluations.push_back(progress.at("evaluation"));
      },
      never));
  return all;
}

}  // namespace autotuned::trainer
