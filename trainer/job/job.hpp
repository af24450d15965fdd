// SPDX-License-Identifier: Apache-2.0
// A training job under a configuration: steps, blocks, checkpoints, profiles. LibTorch stays behind it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "plugins/host/trainer_library.hpp"
#include "profiler/metrics.hpp"
#include "profiler/operators.hpp"
#include "profiler/spans.hpp"
#include "recipes/recipe.hpp"
#include "trainer/common/device.hpp"
#include "trainer/evaluation/test_result.hpp"
#include "trainer/feed/reuse.hpp"
#include "trainer/ranks/rank_group.hpp"
#include "trainer/state/comparison.hpp"
#include "trainer/state/training_length.hpp"

namespace autotuned::trainer {

// Returns true to end the work in progress. Called between steps, at most every few milliseconds.
using CancelCheck = std::function<bool()>;

struct JobFacts {
  std::int64_t parameters = 0;
  std::int64_t parameter_bytes = 0;
  bool has_filters = false;  // a parameter has four dimensions
  std::int64_t train_samples = 0;
  std::int64_t test_samples = 0;           // 0 without evaluation
  std::vector<std::int64_t> sample_shape;  // of tokens {tokens_per_sample}
  std::string stored_as;  // what a sample is in the data: picture_file, uint8, float32 or token
  std::int64_t tokens_per_sample = 0;  // that the model sees; 0: samples are no tokens
  std::int64_t classes = 0;
  // The names of classes, of the values of a target, or of tags, in the order of the outputs; empty: they have only
  // numbers.
  std::vector<std::string> class_names;
  std::string keep_float32_obstacle;  // why no module can be kept in 32 bit; empty: they can
  // Whether input.order, input.decode, input.point_ops, input.dilation and input.decode_scale could change anything.
  bool can_move_crop = false;
  bool can_decode_crop = false;
  std::int64_t pixel_stages = 0;
  bool dilates = false;
  bool can_finish_on_device = false;
  std::string decode_scale =
      "full";  // the last value of input.decode_scale that makes a picture smaller
  // For input.cache: the bytes that each kind needs for all of the data (0: it would save no more than a smaller kind),
  // the bytes that memory and disk have for it, and the number of different stored samples.
  std::int64_t cache_raw_bytes = 0;
  std::int64_t cache_decoded_bytes = 0;
  std::int64_t cache_prefix_bytes = 0;
  std::int64_t cache_allowed_bytes = 0;
  std::int64_t cache_disk_allowed_bytes = 0;
  std::int64_t stored_samples = 0;
  // The bytes that input.jpeg_index needs for all of the data; 0: it is of no use.
  std::int64_t jpeg_index_bytes = 0;
  std::string device;
  std::int64_t device_memory_bytes = 0;
};

struct Prepared {
  std::vector<std::string> changed;  // knob names
  std::int64_t switch_ns = 0;
};

struct RunRequest {
  std::int64_t minimum_ns = 0;
  std::int64_t minimum_steps = 1;
  std::int64_t warmup_steps = 0;  // before the clock starts
  // The rung to measure. ErrorKind::unsupported: the block would be the same as that of another rung.
  Reuse reuse = Reuse::nothing;
  // Not empty: after the first step a checkpoint is written there as in training. The block ends when it is written,
  // and the file is removed.
  std::filesystem::path checkpoint_file;
};

struct JobProfile {
  profiler::Metrics metrics;
  std::vector<profiler::SpanTotal> spans;
  std::vector<profiler::OperatorTotal> operators;
};

// A trace is recorded in cycles like torch.profiler's schedule: `skip_first` steps once, then in each cycle `wait`
// steps that are not recorded, `warmup` steps whose records are dropped, and `active` steps that are kept.
struct TraceRequest {
  std::filesystem::path file;  // of this rank; empty: the steps are made, but nothing is written
  std::int64_t skip_first = 0;
  std::int64_t wait = 0;
  std::int64_t warmup = 0;
  std::int64_t active = 1;  // at least 1
  std::int64_t repeat = 1;  // at least 1
  bool shapes = false;
  bool memory = false;
  // Not empty: after the steps of each cycle a checkpoint is written there as in training, and removed. The trace shows
  // its time.
  std::filesystem::path checkpoint_file;
  std::int64_t most_events = 2'000'000;
  std::int64_t maximum_ns =
      INT64_MAX;  // after that no further step begins, except a first active one
};
struct JobTrace {
  std::int64_t steps = 0;  // in the trace
  std::int64_t events = 0;
  std::int64_t lost_events = 0;
  std::int64_t bytes = 0;          // of the file
  std::int64_t duration_ns = 0;    // of these steps
  std::vector<std::string> notes;  // what could not be recorded, and why
};

// The limits of a stretch of training: steps that train and are not measured.
struct StretchLimits {
  std::int64_t steps = 1;
  std::int64_t deadline_ns = INT64_MAX;  // CLOCK_MONOTONIC; checked after each step
  bool stops_at_epoch_end = false;
};
struct Stretch {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  std::vector<double> losses;
  bool ended_epoch = false;
  bool was_cancelled = false;
};

// What identifies the model's input in one step.
struct StepInput {
  std::uint64_t labels = 0;  // a hash of their values, in order; so with the images
  std::uint64_t images = 0;
  // A sum over each sample's pixels with fixed signs. If pixels differ by rounding only, the sums are nearly equal.
  std::vector<double> projections;
};

struct CheckRequest {
  std::int64_t steps = 1;
  // The second half of the steps begins two steps before the end of an epoch, where that has as many.
  bool crosses_epoch = false;
  // Keeps the model's outputs also before the first step.
  bool keeps_outputs_before = false;
  // Evaluates about so many samples of the test data before the first step, in whole batches; 0: none.
  std::int64_t test_samples = 0;
};
struct CheckedSteps {
  Block block;  // with every loss
  std::vector<StepInput> inputs;
  std::optional<TestResult> test;  // nothing without test data, and of several ranks
};

// One thread. After ErrorKind::out_of_memory the job can go on: gradients and the current batch are dropped. The
// parameters may be those before or after the failed step, or between; restore a checkpoint before results matter.
// Other errors of LibTorch are ErrorKind::internal.
class Job {
 public:
  class State;  // job_state.hpp, private to trainer/

  // Makes a job with a model in the initial state, which is kept as the checkpoint `initial`. `configuration` names
  // every knob; restart knobs take effect only here. `libraries`: the workloads that the recipe names, and the
  // extensions whose knobs this job supports; knobs of extensions that are not in the configuration have their
  // defaults. The code of an extension runs once one of its knobs is changed; its errors are ErrorKind::internal, and
  // the job cannot be used afterwards. `ranks`: the group of ranks of which this job is one; it must outlive the job
  // (null: the job trains alone). All ranks must make the same calls in the same order. Before steps that train, call
  // start_together(). An error of one rank in steps fails the steps of all, and none can be used afterwards, except
  // after ErrorKind::cancelled, which the leader decides for all, and ErrorKind::unsupported, before anything was done.
  [[nodiscard]] static Result<std::unique_ptr<Job>> load(
      const recipes::Recipe& recipe, const Configuration& configuration, const Machine& machine,
      const Devices& devices, std::vector<plugins::TrainerLibrary> libraries = {},
      RankGroup* ranks = nullptr);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] const JobFacts& facts() const;
  [[nodiscard]] const recipes::Recipe& recipe() const;
  [[nodiscard]] const Configuration& configuration() const;
  // The ranks of this training; null: it trains alone.
  [[nodiscard]] RankGroup* ranks() const;
  // With several ranks: replaces the numbers of all others by the leader's (RankGroup).
  [[nodiscard]] Result<void> take_from_leader(std::span<double> numbers);
  // The samples of an epoch that this rank trains on.
  [[nodiscard]] std::int64_t samples_per_epoch() const;
  // The steps and samples since the initial state; checkpoints include them. Samples are those of this rank.
  [[nodiscard]] std::int64_t steps() const;
  [[nodiscard]] std::int64_t samples() const;

  // To be called by several ranks before they train: gives all of them the leader's parameters and buffers.
  // ErrorKind::invalid: they are not at the same step.
  [[nodiscard]] Result<void> start_together();

  // Switches to another configuration. ErrorKind::invalid: a value outside its domain, or a change to a restart knob.
  // After an error nothing has changed.
  [[nodiscard]] Result<Prepared> prepare(const Configuration& configuration);

  // Measures a block. With several ranks it begins and ends on all of them at once, with the same steps; the result has
  // the samples and the time of this rank.
  [[nodiscard]] Result<Block> run(const RunRequest& request, const CancelCheck& is_cancelled);
  // Makes exactly `count` steps and reads every loss.
  [[nodiscard]] Result<Block> run_steps(std::int64_t count, const CancelCheck& is_cancelled);
  // Makes steps for a check, and returns their inputs and losses. The next keep() also holds the model's outputs after
  // them, in evaluation mode, on the first batch of the first epoch.
  [[nodiscard]] Result<CheckedSteps> check_steps(const CheckRequest& request,
                                                 const CancelCheck& is_cancelled);
  // Profiles `steps` steps. After `maximum_ns`, warm-up included, no further step begins, except a first one.
  [[nodiscard]] Result<JobProfile> profile(std::int64_t steps, std::int64_t warmup_steps,
                                           const CancelCheck& is_cancelled,
                                           std::int64_t maximum_ns = INT64_MAX);
  // Whether the loader times the parts of samples, which slows it: only while a profile or a trace is made.
  [[nodiscard]] bool times_parts() const;

  // Copies the state, writes it to `file` and removes the file; later profiles tell how long copy and write took. Only
  // the first call does this. ErrorKind::out_of_memory: nothing was done.
  [[nodiscard]] Result<void> time_checkpoint(const std::filesystem::path& file);

  // Records a trace of steps, operator by operator, like torch.profiler. With several ranks only the leader writes.
  [[nodiscard]] Result<JobTrace> trace(const TraceRequest& request,
                                       const CancelCheck& is_cancelled);

  // Returns the memory that LibTorch keeps to the device, so that another process can use it, and what is kept
  // page-locked to the system. The next step takes longer.
  [[nodiscard]] Result<void> release_memory();

  // A factor on the scheduled learning rate: 1 in the initial state; checkpoints include it.
  [[nodiscard]] double rate_factor() const;
  void set_rate_factor(double factor);
  // Sets where the learning-rate schedule begins: at the next step (`is_anew`), or at the begin of the training. It
  // ends with the training. Checkpoints include its begin.
  void begin_schedule(bool is_anew);
  // The learning rate of the last step that this object made; 0 before the first.
  [[nodiscard]] double last_learning_rate() const;

  // Loader threads work between resume_loading() and pause_loading(); the calls above do both.
  void resume_loading();
  void pause_loading();
  // Trains a stretch. A cancel is not an error here: the result is the stretch so far.
  [[nodiscard]] Result<Stretch> advance(const StretchLimits& limits,
                                        const CancelCheck& is_cancelled);
  // Evaluates the model on the recipe's test data. ErrorKind::invalid: it has none. With several ranks only the leader
  // evaluates; the others learn only whether it was cancelled.
  [[nodiscard]] Result<TestResult> evaluate(const CancelCheck& is_cancelled);

  // Files of samples that could not be read and for which others stood in (on_error: skip): those not yet
  // taken, each once, and how many there are so far. Names and reasons are `where` and `what`.
  [[nodiscard]] std::vector<Error> take_damaged_files();
  [[nodiscard]] std::int64_t damaged_files() const;
  [[nodiscard]] std::vector<std::string> damaged_names() const;  // all so far

  // Warnings about problems that did no harm to the training, and about damaged files that were found when it was
  // cancelled: those not yet taken, each once.
  [[nodiscard]] std::vector<Error> take_warnings();

  // Keeps the present state as a checkpoint in memory, and returns its bytes. An earlier one of that name is replaced.
  [[nodiscard]] Result<std::int64_t> keep(const std::string& name);
  // Goes back to a checkpoint. ErrorKind::not_found: there is none of that name; `invalid`: it is of other data.
  [[nodiscard]] Result<void> restore(const std::string& name);
  // The same, but goes on from `place`, with its samples and its count of steps. ErrorKind::invalid: the data have no
  // such place.
  [[nodiscard]] Result<void> restore(const std::string& name, const TrainingPosition& place);
  [[nodiscard]] TrainingPosition place() const;
  // Frees a checkpoint. ErrorKind::invalid: it is `initial`, which stays.
  [[nodiscard]] Result<void> drop(const std::string& name);
  // Checkpoints in files. import_from() returns the `note` that was given to export_to().
  [[nodiscard]] Result<std::int64_t> export_to(const std::filesystem::path& file,
                                               const std::string& name, const std::string& note);
  [[nodiscard]] Result<std::string> import_from(const std::filesystem::path& file,
                                                const std::string& name);
  // Writes the present state in two parts: begin_export() only makes a copy in memory, which is then written while the
  // caller goes on. At most one at a time: begin_export() REQUIRES !is_exporting(), the others the opposite.
  [[nodiscard]] Result<void> begin_export(const std::filesystem::path& file,
                                          const std::string& note);
  [[nodiscard]] bool is_exporting() const;  // until finish_export()
  [[nodiscard]] bool is_exported() const;   // finish_export() would not wait
  [[nodiscard]] Result<std::int64_t> finish_export();
  // Keeps `name` under `as` with every parameter rounded to 16 bits. The same bytes as keep().
  [[nodiscard]] Result<std::int64_t> round(const std::string& name, const std::string& as);
  // Keeps `name` under `as` with the optimizer's state and the loss scale of the initial state.
  [[nodiscard]] Result<std::int64_t> renew(const std::string& name, const std::string& as);
  // `candidate_base` as for compare() of checkpoints; empty: `base`.
  [[nodiscard]] Result<Comparison> compare(const std::string& base, const std::string& reference,
                                           const std::string& candidate,
                                           const std::string& candidate_base = {}) const;

  // The identity of the recipe's data (data_identity.hpp): `train`, and `test` if there are such data. It does not
  // depend on the configuration, the ranks or the order of the samples. Reads some samples of each.
  [[nodiscard]] Result<Json> data_identity() const;

  // digest_of() the present state (trainer/state/checkpoint.hpp).
  [[nodiscard]] Result<std::string> digest();
  // The digest of the parameters alone.
  [[nodiscard]] Result<std::string> parameter_digest();
  // Writes the model. If the recipe averages the weights, also model_ema.pt beside a file model.pt; if it splits its data, also
  // held_out.txt, the names of the samples that were not trained on.
  [[nodiscard]] Result<std::int64_t> save_model(const std::filesystem::path& file);

 private:
  explicit Job(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::trainer
