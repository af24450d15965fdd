// SPDX-License-Identifier: Apache-2.0
// Translates a configuration into the settings of a job's feed and of its learner. Both functions need every knob of
// the job.
#pragma once

#include <cstdint>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "recipes/recipe.hpp"
#include "trainer/feed/feed.hpp"
#include "trainer/input/loader/kept.hpp"
#include "trainer/input/transforms/pipeline.hpp"
#include "trainer/models/model.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {

// The settings of loading and transfer. `pipeline` must live as long as the feed that gets them.
[[nodiscard]] FeedSettings feed_settings_of(const recipes::Recipe& recipe,
                                            const Configuration& configuration,
                                            const input::Pipeline& pipeline,
                                            const input::Kept& kept,
                                            std::int64_t memory_allowed_bytes);

// The settings of a step. Errors are those of kept_modules().
[[nodiscard]] Result<LearnerSettings> learner_settings_of(const Configuration& configuration,
                                                          const Model& model);

}  // namespace autotuned::trainer
