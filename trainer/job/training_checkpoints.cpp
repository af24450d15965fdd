// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/training_checkpoints.hpp"

#include "base/json.hpp"
#include "profiler/spans.hpp"

namespace autotuned::trainer {

void TrainingCheckpoints::wait_for_next() {
  next_ns_ = profiler::now_ns() + request_.checkpoint_every_ns;
}

Result<std::int64_t> TrainingCheckpoints::write(const std::string& note) {
  // An earlier write that failed does not matter: this checkpoint is newer.
  if (auto finished = finish(); !finished) miss(finished.error());
  if (auto kept = job_.keep(kTrainingCheckpoint); !kept) return tl::unexpected(kept.error());
  const std::int64_t start = profiler::now_ns();
  const profiler::Span span(profiler::span::kCheckpoint);
  const auto bytes = job_.export_to(request_.checkpoint_path, kTrainingCheckpoint, note);
  (void)job_.drop(kTrainingCheckpoint);
  if (!bytes) return tl::unexpected(bytes.error());
  report(job_.steps(), *bytes);
  wait_for_next();
  return profiler::now_ns() - start;
}

Result<std::int64_t> TrainingCheckpoints::begin(const std::string& note) {
  const std::int64_t start = profiler::now_ns();
  if (auto finished = finish(); !finished) miss(finished.error());
  const profiler::Span span(profiler::span::kCheckpoint);
  if (auto begun = job_.begin_export(request_.checkpoint_path, note); !begun) {
    return tl::unexpected(begun.error());
  }
  exported_step_ = job_.steps();
  wait_for_next();
  return profiler::now_ns() - start;
}

Result<void> TrainingCheckpoints::take_written() {
  return job_.is_exporting() && job_.is_exported() ? finish() : Result<void>();
}

void TrainingCheckpoints::miss(Error error) {
  error.what =
      "the checkpoint at step " + std::to_string(job_.steps()) +
      " could not be written; the training goes on, and the next one is tried: " + error.what;
  on_progress_(warning_frame(error));
  wait_for_next();
}

Result<void> TrainingCheckpoints::finish() {
  if (!job_.is_exporting()) return {};
  const auto bytes = job_.finish_export();
  if (!bytes) return tl::unexpected(bytes.error());
  report(exported_step_, *bytes);
  return {};
}

void TrainingCheckpoints::report(std::int64_t step, std::int64_t bytes) {
  on_progress_({{"checkpoint", {{"step", step}, {"bytes", bytes}}}});
}

}  // namespace autotuned::trainer
