// SPDX-License-Identifier: Apache-2.0
// The checkpoint file of a training: when it is due, and how it is written, at once or beside the training. No LibTorch here.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "trainer/job/job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {

// The name of the state that a checkpoint file holds.
inline constexpr const char* kTrainingCheckpoint = "training";

// Only the leader of several ranks uses it; its file is for all of them. A written checkpoint is reported to
// `on_progress`. The constructor's arguments must outlive it. One thread.
class TrainingCheckpoints {
 public:
  TrainingCheckpoints(Job& job, const TrainRequest& request, const ProgressSink& on_progress)
      : job_(job), request_(request), on_progress_(on_progress) {}

  // The next checkpoint is due after TrainRequest::checkpoint_every_ns, counted from now.
  void wait_for_next();
  // When it is due, on the clock of profiler::now_ns().
  [[nodiscard]] std::int64_t next_ns() const { return next_ns_; }

  // Writes the state and `note`; the file is complete when it returns. Returns the time of writing, in ns, which is not
  // part of the training.
  Result<std::int64_t> write(const std::string& note);
  // Begins to write beside the training (checkpoint.async). Returns the time that the training waited, in ns. An error
  // of the writing itself comes later: from take_written(), or as a warning of the next checkpoint.
  Result<std::int64_t> begin(const std::string& note);
  // Reports the checkpoint that was begun, if it is complete by now.
  Result<void> take_written();
  // Waits until the checkpoint that was begun is complete, and reports it. Nothing happens if none was begun.
  Result<void> finish();

  // Reports that a checkpoint could not be written, and tries again when the next one is due: the training is worth more
  // than one checkpoint.
  void miss(Error error);

 private:
  void report(std::int64_t step, std::int64_t bytes);

  Job& job_;
  const TrainRequest& request_;
  const ProgressSink& on_progress_;
  std::int64_t next_ns_ = 0;
  std::int64_t exported_step_ = 0;  // whose state is being written
};

}  // namespace autotuned::trainer
