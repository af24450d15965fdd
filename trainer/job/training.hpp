// SPDX-License-Identifier: Apache-2.0
// Trains a job to its recipe's end, with progress, evaluation, checkpoints and resumption. No LibTorch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "base/result.hpp"
#include "recipes/recipe.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {

// From which state to extend the training of another run (`run --extend`).
struct ExtendRequest {
  std::filesystem::path state;  // its checkpoint at the end
  std::string run;              // its id, which the checkpoint must name
  // The learning-rate schedule begins anew there; otherwise it is stretched over the whole length.
  bool restarts_schedule = false;
};

struct TrainRequest {
  std::filesystem::path checkpoint_path;  // checkpoint-RUN.pt: RUN is the id of this run
  bool resume = false;                    // from checkpoint_path, when it is there
  bool takes_other_batch_size = false;    // also from a checkpoint of another batch size
  // Where to start if checkpoint_path is not there; nothing: from the initial state.
  std::optional<ExtendRequest> extend;
  std::int64_t checkpoint_every_ns = 600'000'000'000;
  std::int64_t progress_every_ns = 500'000'000;
};

struct TrainingSummary {
  std::int64_t steps = 0;  // of the whole training, like all that follow
  std::int64_t samples = 0;
  std::int64_t epochs = 0;       // completed
  std::int64_t duration_ns = 0;  // in steps, without evaluation and checkpoints
  std::int64_t evaluation_ns = 0;
  double final_loss = 0.0;  // of the last step
  std::optional<TestResult> test;
  // Whose weights were saved as the best model, by evaluate.best_by: {"epoch": 6, "mae": 0.0549}. Null without
  // evaluate.save_best, and if none was saved. In an extended training it may be one of the other run.
  Json best_evaluation;
  bool was_cancelled = false;
  std::int64_t resumed_from_step = 0;
  std::int64_t damaged_files = 0;  // which other samples replaced, in any process of the training
  std::int64_t evaluations_since_best = 0;  // that evaluate.patience counts
};

// The `progress` member for a damaged file that another sample replaced; `files` is their number so far, with this one.
[[nodiscard]] Json damage_frame(const Error& error, std::int64_t files);
// The `progress` member for a warning about a problem that does no harm to the training.
[[nodiscard]] Json warning_frame(const Error& warning);

// Receives the `progress` member of the protocol's frames.
using ProgressSink = std::function<void(const Json&)>;

// With checkpoint.async, periodic checkpoints are written while the training goes on; the last one never is. A periodic
// checkpoint that cannot be written is a warning, and is tried again when the next is due; the last one must be
// written.
//
// The best model is written as model_best-RUN.pt beside the checkpoint, so that the files of an earlier training stay
// intact.
//
// Trains from the initial state under the job's present configuration, whatever was done to the job before. After a
// cancel and at the end a checkpoint is written, from which the same call goes on; the final result is bit for bit that
// of a training without interruption, except with three or more ranks (docs/distributed.md).
//
// With several ranks, all call it. Only the leader writes files, evaluates and is cancelled, and all go on from its
// checkpoint. Samples are those of all ranks; losses are the leader's.
//
// From a checkpoint of another batch size it goes on at the same sample, in steps of its own size, if the request
// permits it. A training that extends another run is bit for bit one of that length from the start, if the learning
// rate does not depend on the length.
//
// ErrorKind::invalid: the loss is not finite (names the step), the checkpoint is of another recipe, seed or run, of other
// data (data_identity.hpp) or, without permission, of another batch size, or there is nothing to extend: it has as
// many steps already, or evaluate.patience has ended it. ErrorKind::not_found: the state to extend is not there.
[[nodiscard]] Result<TrainingSummary> train(Job& job, const TrainRequest& request,
                                            const ProgressSink& on_progress,
                                            const CancelCheck& is_cancelled);

}  // namespace autotuned::trainer
