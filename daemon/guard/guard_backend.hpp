// SPDX-License-Identifier: Apache-2.0
// The two sides of a guard as one backend that the tuner measures: two configurations of one TrainerBackend, or two
// TrainerJobs.
#pragma once

#include <string>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::daemon {

// A key in configurations that is no knob: it tells the sides apart if their settings are the same. It is never sent to
// a trainer.
inline constexpr const char* kGuardSide = "guard.side";
[[nodiscard]] Configuration on_this_side(Configuration configuration);
[[nodiscard]] Configuration on_other_side(Configuration configuration);

// Only measures: it makes no checks and no profiles. While one of two jobs handles a request, the trainers of the other
// one are stopped (SIGSTOP).
class GuardBackend final : public tuner::TrainingBackend {
 public:
  // `against` is null where both sides are configurations of `own`. Both must outlive this.
  GuardBackend(TrainerBackend& own, TrainerBackend* against) : own_(&own), against_(against) {}

  // Starts a trainer of each job.
  Result<void> start(const Configuration& own, const Configuration& against);

  // The configurations that the functions below take are results of on_this_side() or on_other_side().
  Result<void> make_ready(const Configuration& configuration, tuner::ProcessChoice process,
                          const Configuration* reference) override;
  [[nodiscard]] bool share_process(const Configuration& one,
                                   const Configuration& other) const override;
  Result<Block> run_block(const Configuration& configuration,
                          const tuner::BlockRequest& request) override;

 private:
  // The job of the configuration's side. Stops the trainers of the other one.
  TrainerBackend& working(const Configuration& configuration);

  TrainerBackend* own_;
  TrainerBackend* against_;
};

}  // namespace autotuned::daemon
