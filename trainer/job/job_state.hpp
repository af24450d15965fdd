// SPDX-License-Identifier: Apache-2.0
// The implementation of Job. Private to trainer/: includes LibTorch, throws its exceptions.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/extensions/extensions.hpp"
#include "trainer/feed/batch_mix.hpp"
#include "trainer/feed/feed.hpp"
#include "trainer/input/datasets/damage_search.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"
#include "trainer/input/loader/kept.hpp"
#include "trainer/input/transforms/pipeline.hpp"
#include "trainer/job/job.hpp"
#include "trainer/job/kept_samples.hpp"
#include "trainer/job/memory_need.hpp"
#include "trainer/models/workloads.hpp"
#include "trainer/ranks/rank_group.hpp"
#include "trainer/state/checkpoint.hpp"
#include "trainer/state/checkpoint_writer.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {

class CancelPoll;    // step_clock.hpp
struct RecipeCheck;  // job_check.hpp

// The recipe's transforms of training in one of their forms.
[[nodiscard]] Result<input::Pipeline> pipeline_of(const recipes::Recipe& recipe,
                                                  const input::Dataset& data,
                                                  const input::PipelineForm& form,
                                                  std::int64_t rank = 0);

class Job::State {
 public:
  State(recipes::Recipe recipe, const Machine& machine, const std::string& device,
        std::vector<plugins::TrainerLibrary> libraries, RankGroup* ranks = nullptr);

  // job_state.cpp: the functions of Job with these names.
  Result<void> load(const Configuration& configuration);
  Result<Prepared> prepare(const Configuration& configuration);
  Checkpoint capture(HostMemory memory = HostMemory::pageable);
  void add_tied_names(Checkpoint& checkpoint) const { learner_->add_tied_names(checkpoint); }
  Result<std::int64_t> keep(const std::string& name);
  Result<void> restore(const std::string& name, const std::optional<TrainingPosition>& place = {});
  [[nodiscard]] TrainingPosition place() const;
  Result<void> drop(const std::string& name);
  [[nodiscard]] Result<const Checkpoint*> find(const std::string& name) const;
  void put(const std::string& name, Checkpoint checkpoint);

  // Completes an error of a batch of these data. If a damaged file ends the job, the others are searched for, and their
  // names are added. If the search is cancelled, the error says so, and the damage found so far becomes a warning.
  Error told_with_others(Error error, const input::Dataset& data, const CancelCheck& is_cancelled);
  // Marks an error that only this rank has, such as one of a file of its share: never of a kind after which all ranks
  // go on (is_agreed()), so that this rank leaves and the others do not wait for it. Without other ranks: the error
  // itself.
  [[nodiscard]] Error of_this_rank(Error error) const;
  // The error of a batch of these data as the job reports it: told_with_others(), or of_this_rank().
  Error error_of_batch(Error error, const input::Dataset& data, const CancelCheck& is_cancelled);
  std::vector<Error> take_damaged_files();
  [[nodiscard]] std::int64_t damaged_files() const;
  [[nodiscard]] std::vector<std::string> damaged_names() const;
  std::vector<Error> take_warnings() {
    warn(extensions_.take_warning());
    return std::exchange(warnings_, {});
  }

  // job_blocks.cpp
  Result<Block> run(const RunRequest& request, const CancelCheck& is_cancelled);
  Result<Block> run_steps(std::int64_t count, const CancelCheck& is_cancelled);
  Result<Stretch> advance(const StretchLimits& limits, const CancelCheck& is_cancelled);

  // job_profile.cpp
  Result<JobProfile> profile(std::int64_t steps, std::int64_t warmup_steps,
                             const CancelCheck& is_cancelled, std::int64_t maximum_ns);

  // job_ranks.cpp
  Result<void> start_together();

  // job_evaluation.cpp
  Result<TestResult> evaluate(const CancelCheck& is_cancelled);
  // Writes the names of the samples that evaluate.split holds out into held_out.txt of `folder`, each in a line of its own, in the order
  // of the data. Without a split it removes such a list, which is then of an earlier training.
  [[nodiscard]] Result<void> list_held_out(const std::filesystem::path& folder) const;

  // job_prediction.cpp: passes the logits of each sample to the sink, in the order of the data, in 32 bits on the host.
  // An error of the sink ends it. REQUIRES: the recipe's data are not shuffled, and no sample is dropped.
  using AnswerSink = std::function<Result<void>(std::int64_t sample, const at::Tensor& logits)>;
  Result<void> predict(const AnswerSink& on_answer, const CancelCheck& is_cancelled);

  // job_checked_steps.cpp
  Result<CheckedSteps> check_steps(const CheckRequest& request, const CancelCheck& is_cancelled);

  // job_checkpoint.cpp
  [[nodiscard]] Json data_identity() const;
  Result<void> time_checkpoint(const std::filesystem::path& file);

  // job_trace.cpp
  Result<JobTrace> trace(const TraceRequest& request, const CancelCheck& is_cancelled);

  // job_check.cpp: the work of check_recipe(). Makes no step. The state cannot be used for anything else afterwards.
  void find_problems(const Configuration& configuration, RecipeCheck& found);

  // To be called after an error in a step: releases its memory, so that other steps can be tried.
  void abandon_step();

  [[nodiscard]] Feed& feed() { return *feed_; }
  [[nodiscard]] Learner& learner() { return *learner_; }
  [[nodiscard]] CheckpointWriter& writer() { return writer_; }
  [[nodiscard]] const JobFacts& facts() const { return facts_; }
  [[nodiscard]] const recipes::Recipe& recipe() const { return recipe_; }
  [[nodiscard]] const Configuration& configuration() const { return configuration_; }
  [[nodiscard]] RankGroup* ranks() const { return ranks_; }
  [[nodiscard]] std::int64_t samples_per_epoch() const;
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] std::int64_t samples() const { return samples_; }
  [[nodiscard]] double rate_factor() const { return rate_factor_; }
  void set_rate_factor(double factor) { rate_factor_ = factor; }
  void begin_schedule(bool is_anew) { schedule_begin_ = is_anew ? samples_ : 0; }
  [[nodiscard]] double last_learning_rate() const { return last_learning_rate_; }

 private:
  struct StepTaken {
    at::Tensor loss;  // a scalar on the device
    std::int64_t samples = 0;
    std::int64_t wait_ns = 0;
    std::int64_t bytes = 0;
    bool ends_epoch = false;
  };
  class BlockRecord;
  class Tracing;

  Result<void> check(const Configuration& configuration) const;
  // job_ranks.cpp: errors for what several ranks, or one rank alone, do not support.
  Result<void> check_ranks(const Configuration& configuration) const;
  Result<void> check_alone(const Configuration& configuration) const;
  // The memory of the machine, and of the device that trains. A check of the recipe loads it on the CPU, whatever trains later.
  [[nodiscard]] MemoryRoom memory_room() const;
  [[nodiscard]] input::Share share() const;
  // Seeds the generators for a step. The draws of other ranks than the leader depend on seed, rank and step alone, so
  // that checkpoints need not hold them.
  void seed_step() const;
  // The leader's answer or number, on all ranks.
  [[nodiscard]] bool as_leader_says(bool mine) const;
  [[nodiscard]] std::int64_t of_leader(std::int64_t mine) const;
  // Asked after a step of a training: whether it was cancelled. With several ranks the leader decides, about every 50
  // ms, after the same step on all of them.
  [[nodiscard]] bool is_cancelled_for_all(CancelPoll& cancel);
  [[nodiscard]] bool is_leader() const { return ranks_ == nullptr || ranks_->is_leader(); }
  // job_evaluation.cpp: evaluates on all test data, or on the batches in which the first `most_samples` of them are.
  Result<TestResult> evaluate_here(const CancelCheck& is_cancelled,
                                   std::int64_t most_samples = INT64_MAX);
  // A feed of the test data, paused at their beginning; for a few batches alone it loads no more than these ahead.
  // REQUIRES: there are test data.
  enum class TestBatches { all, few };
  Result<std::unique_ptr<Feed>> make_test_feed(TestBatches batches);
  // Ok if a graph can be recorded under this configuration; opens the library for it.
  Result<void> prepare_graph(const Configuration& configuration);
  Result<void> open_data();
  // `known_classes` as of input::open_dataset().
  Result<std::unique_ptr<input::Dataset>> open(const recipes::Component& data,
                                               std::span<const std::string> known_classes = {});
  Result<const input::Pipeline*> pipeline_for(const Configuration& configuration);
  // job_evaluation.cpp: opens what to evaluate on, if the recipe says so, and compiles its transforms.
  Result<void> open_test_data();
  Result<void> check_classes();
  // job_targets.cpp: check that the targets of both data sets fit the loss and the model's number of outputs.
  [[nodiscard]] Result<void> check_targets(std::int64_t outputs) const;
  [[nodiscard]] Result<void> check_test_targets();
  void warn_of_alike_names();  // of classes or tags
  [[nodiscard]] Result<void> check_tokens(std::int64_t outputs) const;
  // The recipe with the parameters that its model takes from the data. ErrorKind::invalid: the model takes pictures and
  // the data are tokens, or the reverse.
  [[nodiscard]] Result<recipes::Recipe> fitted_recipe() const;
  Result<void> compile_test_pipeline(const input::SampleShape& shape_in_training);
  // Whether the recipe permits that knobs of extensions round, whatever they declare.
  [[nodiscard]] bool may_round(const Configuration& configuration) const;
  // Applies the knobs that neither the feed nor the learner implements.
  void configure_steps(const Configuration& configuration);
  void describe(const input::Pipeline& pipeline);
  void describe_caches();
  void describe_index();
  // job_cache.cpp: the cache and the index of a pipeline; members are null if it keeps nothing.
  Result<input::Kept> kept_for(const input::Pipeline& pipeline);
  // Before a block, a profile or a trace.
  void fill_kept(const CancelCheck& is_cancelled);
  void warn(std::optional<Error> warning);
  void add_input_facts(profiler::ProfileFacts& facts, const input::LoaderStatistics& loaded) const;
  // Records up to `count` steps; none begins after `deadline_ns`.
  Result<profiler::ProfileFacts> record_steps(std::int64_t count, const CancelCheck& is_cancelled,
                                              std::int64_t deadline_ns);
  // Takes the batches that are ready now, without training on them.
  Result<void> drop_ready_batches(const CancelCheck& is_cancelled);
  // job_checkpoint.cpp: the checkpoint of a block, within the block's time.
  Result<void> begin_block_checkpoint(const std::filesystem::path& file);
  Result<void> end_block_checkpoint(const std::filesystem::path& file);
  // job_checked_steps.cpp: lowers the loss scale of fp16 to one with which the next step moves the parameters, and changes
  // nothing else.
  Result<void> settle_loss_scale(const CancelCheck& is_cancelled);
  // Makes a step without gradients, keeps the parameters after it for the next checkpoint, and takes it back.
  Result<void> keep_idle_step(const CancelCheck& is_cancelled);
  // Keeps the model's present outputs for a few batches, for the next checkpoint.
  Result<void> keep_outputs(const char* name, const CancelCheck& is_cancelled);
  // The position two steps before the end of this epoch; if that has passed, of the next. Nothing if epochs are
  // shorter.
  [[nodiscard]] std::optional<input::Position> near_epoch_end() const;
  // The timed part of run(), as a trainer alone and as one of several ranks, which end it together.
  using MakeStep = std::function<Result<StepTaken>()>;
  Result<Block> measure(const RunRequest& request, const MakeStep& step, CancelPoll& cancel);
  Result<Block> measure_together(const RunRequest& request, const MakeStep& step,
                                 CancelPoll& cancel);
  Result<StepTaken> step(const CancelCheck& is_cancelled);
  StepTaken step_on(const DeviceBatch& batch);
  StepTaken learn_from(const DeviceBatch& batch);
  // How often steps are compared with those of the model without extensions: not where a check compares them, or where
  // they are observed. `is_last`: a stretch ends with the step, as planned.
  [[nodiscard]] Repeats repeats(bool is_last) const;
  // The rules of train.mixup_alpha and train.cutmix_alpha.
  [[nodiscard]] MixRules mix_rules() const {
    return {recipe_.step_rules.mixup_alpha, recipe_.step_rules.cutmix_alpha};
  }
  [[nodiscard]] DeviceBatch mixed_batch(const DeviceBatch& batch) const;
  // The learning rate of the next step, from the batch size and the samples so far.
  [[nodiscard]] double learning_rate() const;
  // Makes steps that are not measured: at least one, and none that begins after `deadline_ns`.
  Result<void> warm_up(std::int64_t steps, const CancelCheck& is_cancelled,
                       std::int64_t deadline_ns);
  void synchronize() const;
  // The peak since reset_device_peak(), including the memory that a recorded step holds.
  [[nodiscard]] std::int64_t device_peak_bytes() const;

  recipes::Recipe recipe_;
  std::vector<recipes::Knob> built_in_knobs_;
  Workloads workloads_;               // outlives the data, the model and the loss
  Extensions extensions_;             // outlives the learner that it changed
  std::vector<recipes::Knob> knobs_;  // with those of extensions
  int cpus_allowed_;
  std::int64_t memory_allowed_bytes_;  // of this rank; of a check of the recipe, of all ranks
  bool has_gpu_;                       // the machine; the recipe may not use it
  at::Device device_;
  JobFacts facts_;
  Configuration configuration_;
  std::unique_ptr<input::Dataset> train_data_;
  std::unique_ptr<input::Dataset> test_data_;  // null without evaluation
  std::vector<input::Transform> test_transforms_;
  input::Pipeline test_pipeline_;  // one form, so that no knob changes what is evaluated
  std::map<const input::Dataset*, std::size_t> damaged_taken_;
  std::map<const input::Dataset*, input::DamageFound> damaged_found_;  // by told_with_others()
  // The compiled pipelines by form, kept so that switching back costs nothing. Pointers to elements of a map stay
  // valid.
  std::map<input::PipelineForm, input::Pipeline> pipelines_;
  KeptSamples kept_;
  std::vector<Error> warnings_;
  std::unique_ptr<Learner> learner_;
  std::shared_ptr<const void> gather_rewrite_;  // null: LibTorch's own
  bool reads_every_loss_ = false;
  std::unique_ptr<Feed> feed_;  // after the data, which its threads read
  std::map<std::string, Checkpoint, std::less<>> checkpoints_;
  NamedTensors outputs_;  // of a check, until the next keep()
  CheckpointWriter writer_;
  std::int64_t checkpoint_copy_ns_ = 0;  // 0: not timed yet
  std::int64_t checkpoint_write_ns_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t samples_ = 0;
  double rate_factor_ = 1.0;
  std::int64_t schedule_begin_ = 0;  // in samples
  double last_learning_rate_ = 0.0;  // of the step before
  std::int64_t steps_left_ = 0;      // of a stretch, with the present one; 0: in none
  bool ends_with_epoch_ = false;     // that stretch
  bool is_in_block_ = false;
  RankGroup* ranks_ = nullptr;
  std::int64_t rank_step_ns_ =
      0;  // of the last block of several ranks, the same on all; 0: not known
  // When several ranks next ask the leader whether the training was cancelled.
  struct {
    std::int64_t steps = 0;     // since the last one
    std::int64_t after = 1;     // steps, the same on all ranks
    std::int64_t asked_ns = 0;  // 0: not yet
  } question_;
};

}  // namespace autotuned::trainer
