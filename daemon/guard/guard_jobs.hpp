// SPDX-License-Identifier: Apache-2.0
// The two sides of a guard as one job that the tuner measures: two configurations of one trainer, or two trainers.
#pragma once

#include <string>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "daemon/trainers/trainer_job.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::daemon {

// No knob: tells the sides apart where their settings are the same. No trainer sees it.
inline constexpr const char* kGuardSide = "guard.side";
[[nodiscard]] Configuration on_this_side(Configuration configuration);
[[nodiscard]] Configuration on_other_side(Configuration configuration);

// Is only measured. While one of two jobs is asked something, the trainers of the other one are stopped (SIGSTOP).
class GuardJobs final : public tuner::TrainingBackend {
 public:
  // `against` is null where both sides are configurations of `own`. Both must outlive this.
  GuardJobs(TrainerJob& own, TrainerJob* against) : own_(&own), against_(against) {}

  // Starts a trainer of each job.
  Result<void> start(const Configuration& own, const Configuration& against);

  // Configurations below are on one of the sides.
  Result<void> make_ready(const Configuration& configuration,
                          tuner::ProcessChoice process) override;
  [[nodiscard]] bool share_process(const Configuration& one,
                                   const Configuration& other) const override;
  Result<Block> run_block(const Configuration& configuration,
                          const tuner::BlockRequest& request) override;

 private:
  // The job of that side; the other one rests.
  TrainerJob& working(const Configuration& configuration);

  TrainerJob* own_;
  TrainerJob* against_;
};

}  // namespace autotuned::daemon
