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
#include "trainer/feed/reuse.hpp"
#include "trainer/ranks/rank_group.hpp"
#include "trainer/state/comparison.hpp"
#include "trainer/state/training_plan.hpp"

namespace autotuned::trainer {

// Asked between steps, at most every few milliseconds: true ends what is going on.
using CancelCheck = std::function<bool()>;

struct JobFacts {
  std::int64_t parameters = 0;
  std::int64_t parameter_bytes = 0;
  std::int64_t train_samples = 0;
  std::int64_t test_samples = 0;           // 0 without evaluation
  std::vector<std::int64_t> sample_shape;  // of tokens {tokens_per_sample}
  std::string stored_as;  // what a sample is in the data: picture_file, uint8, float32 or token
  std::int64_t tokens_per_sample = 0;  // that the model sees; 0: samples are no tokens
  std::int64_t classes = 0;
  // Of classes, of the values of a target, or of tags, in the order of the outputs; empty: they have only numbers.
  std::vector<std::string> class_names;
  std::string keep_float32_obstacle;  // why no module can be kept in 32 bit; empty: they can
  // What input.order, input.decode, input.point_ops and input.dilation could change.
  bool can_move_crop = false;
  bool can_decode_crop = false;
  std::int64_t pixel_stages = 0;
  bool dilates = false;
  bool can_finish_on_device = false;
  std::string decode_scale = "full";  // the last value of that knob that makes a picture smaller
  // What input.cache could keep: the bytes that each kind needs for all of the data (0: it would keep no more than a smaller
  // kind), the bytes that memory and disk have for it, and how many different samples are stored.
  std::int64_t cache_raw_bytes = 0;
  std::int64_t cache_decoded_bytes = 0;
  std::int64_t cache_prefix_bytes = 0;
  std::int64_t cache_allowed_bytes = 0;
  std::int64_t cache_disk_allowed_bytes = 0;
  std::int64_t stored_samples = 0;
  // What input.jpeg_index would need for all of the data; 0: it is of no use.
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
  // ErrorKind::unsupported: the block would be the same as another one's.
  Reuse reuse = Reuse::nothing;
  // Not empty: after the first step a checkpoint is written there, as training would write it; the block
  // ends when it is written, and the file is gone then.
  std::filesystem::path checkpoint_file;
};

struct JobProfile {
  profiler::Metrics metrics;
  std::vector<profiler::SpanTotal> spans;
  std::vector<profiler::OperatorTotal> operators;
};

// Steps are recorded in cycles, as torch.profiler's schedule has them: the first skip_first steps of all,
// then in each cycle `wait` steps that nobody looks at, `warmup` that are recorded and dropped, and
// `active` that are kept.
struct TraceRequest {
  std::filesystem::path file;  // of this rank; empty: its steps are made, and nothing is written
  std::int64_t skip_first = 0;
  std::int64_t wait = 0;
  std::int64_t warmup = 0;
  std::int64_t active = 1;  // at least 1
  std::int64_t repeat = 1;  // at least 1
  bool shapes = false;
  bool memory = false;
  // Not empty: after the steps of each cycle a checkpoint is written there, as training would write
  // it, and is gone then. What that takes is in the trace.
  std::filesystem::path checkpoint_file;
  std::int64_t most_events = 2'000'000;
  std::int64_t maximum_ns =
      INT64_MAX;  // once over, no further step begins, save a first active one
};
struct JobTrace {
  std::int64_t steps = 0;  // in the trace
  std::int64_t events = 0;
  std::int64_t lost_events = 0;
  std::int64_t bytes = 0;          // of the file
  std::int64_t duration_ns = 0;    // of these steps
  std::vector<std::string> notes;  // what could not be recorded, and why
};

// A stretch of training, for those who train rather than measure.
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

// What the model was given in one step.
struct StepInput {
  std::uint64_t labels = 0;  // a hash of their values, in order; so with the images
  std::uint64_t images = 0;
  // Each sample's sum with fixed signs: where pixels differ by rounding, these are nearly equal.
  std::vector<double> projections;
};

struct CheckRequest {
  std::int64_t steps = 1;
  // The second half of the steps begins two steps before the end of an epoch, where that has as many.
  bool crosses_epoch = false;
  // Keeps the model's outputs also before the first step.
  bool keeps_outputs_before = false;
};
struct CheckedSteps {
  Block block;  // with every loss
  std::vector<StepInput> inputs;
};

// How far the outputs are from targets that are numbers.
struct NumberFigures {
  struct Value {
    double mae = 0.0;          // mean absolute error
    std::optional<double> r2;  // coefficient of determination; nothing if the targets are all equal
  };
  double mae = 0.0;           // mean over the values of a target
  std::optional<double> r2;   // the same over those that have one
  std::vector<Value> values;  // in the order of the target
};

// Which tags were found. Counts of samples, or for all tags together of samples and tags.
struct TagFigures {
  struct Tag {
    std::int64_t true_positives = 0;  // have it, and it was found
    std::int64_t found = 0;           // in which it was found
    std::int64_t there = 0;           // that have it

    // 2 TP / (2 TP + FP + FN); nothing if no sample has it and it was never found.
    [[nodiscard]] std::optional<double> f1() const {
      if (found + there == 0) return std::nullopt;
      return 2.0 * static_cast<double>(true_positives) / static_cast<double>(found + there);
    }
  };
  Tag all;  // its f1() is micro-F1
  std::vector<Tag> tags;
};

// How class masks were found, in pixels that count.
struct MaskFigures {
  std::int64_t pixels = 0;
  std::optional<double> miou;  // mean over the classes that have one
  // Intersection over union of each class; nothing if it is nowhere and was never found.
  std::vector<std::optional<double>> ious;
};

// Of a language model.
struct TokenFigures {
  double perplexity = 0.0;              // e to the power of the loss
  std::optional<double> bits_per_byte;  // nothing if a token is no byte
};

struct TestResult {
  std::int64_t samples = 0;
  double accuracy = 0.0;  // of classes, or of the next tokens; with masks of pixels
  double loss = 0.0;      // mean over samples, without masks in which no pixel counts
  // The share of samples whose class is among the five with the highest logits; nothing with five classes or less.
  std::optional<double> top5_accuracy;
  // confusion[i][j]: samples of class i that were taken for class j, with masks pixels. Empty with more than 1000
  // classes.
  std::vector<std::vector<std::int64_t>> confusion;
  std::optional<NumberFigures> numbers;  // of targets that are numbers
  std::optional<TagFigures> tags;        // of targets that are tags
  std::optional<MaskFigures> masks;      // of targets that are class masks
  std::optional<TokenFigures> tokens;    // of targets that are tokens, with the loss cross_entropy
  // Of classes, of the values of a target, or of tags; empty: they have only numbers.
  std::vector<std::string> class_names;
  bool was_cancelled = false;
};

// One thread. ErrorKind::out_of_memory leaves the job able to go on: gradients and the batch at work
// are dropped, the parameters are those of before or after the failed step, or in between; restore a
// checkpoint before results matter. Errors of LibTorch are ErrorKind::internal.
class Job {
 public:
  class State;  // job_state.hpp, private to trainer/

  // `configuration` names every knob. A model in the initial state, which a checkpoint named `initial` keeps. Restart
  // knobs take effect here and nowhere else. `libraries`: the workloads that the recipe names, and the extensions
  // whose knobs this job obeys; those not in the configuration have their defaults. Code of an extension runs once a
  // knob of it is turned; an error of it is ErrorKind::internal and leaves the job unfit for more. `ranks`: the job is
  // one of several ranks, which make the same calls in the same order; it must outlive the job (null: the job trains
  // alone). Steps are made together, after start_together() where they are trained with. An error of one rank in steps
  // fails those of the others, and leaves all of them unfit for more, except ErrorKind::cancelled, which the leader
  // decides for all, and ErrorKind::unsupported, before anything was done.
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
  // Null: it trains alone.
  [[nodiscard]] RankGroup* ranks() const;
  // Of several ranks: the leader's numbers, which replace those of the others (RankGroup).
  [[nodiscard]] Result<void> take_from_leader(std::span<double> numbers);
  // Of an epoch, those of this rank.
  [[nodiscard]] std::int64_t samples_per_epoch() const;
  // Since the initial state; checkpoints carry them. Samples are those of this rank.
  [[nodiscard]] std::int64_t steps() const;
  [[nodiscard]] std::int64_t samples() const;

  // Of several ranks, before they train: all have the parameters and buffers of the leader then. ErrorKind::invalid: they
  // are not at the same step.
  [[nodiscard]] Result<void> start_together();

  // ErrorKind::invalid: a value outside its domain, or a change to a restart knob. Nothing has changed
  // after an error.
  [[nodiscard]] Result<Prepared> prepare(const Configuration& configuration);

  // Of several ranks a block begins and ends on all of them at once, with the same steps; it has the samples and the
  // time of this rank.
  [[nodiscard]] Result<Block> run(const RunRequest& request, const CancelCheck& is_cancelled);
  // Exactly `count` steps, every loss read.
  [[nodiscard]] Result<Block> run_steps(std::int64_t count, const CancelCheck& is_cancelled);
  // The same, looked at. The next keep() holds the model's outputs after them, too: in evaluation mode, on the first
  // batch of the first epoch.
  [[nodiscard]] Result<CheckedSteps> check_steps(const CheckRequest& request,
                                                 const CancelCheck& is_cancelled);
  // Once `maximum_ns` are over, warm-up included, no further step begins, save a first one.
  [[nodiscard]] Result<JobProfile> profile(std::int64_t steps, std::int64_t warmup_steps,
                                           const CancelCheck& is_cancelled,
                                           std::int64_t maximum_ns = INT64_MAX);
  // Whether the loader times the parts of samples, which slows it: only while a profile or a trace is made.
  [[nodiscard]] bool times_parts() const;

  // Copies the state and writes it to `file`, which is gone then; later profiles tell how long the two took.
  // Only the first call does. ErrorKind::out_of_memory: before anything was done.
  [[nodiscard]] Result<void> time_checkpoint(const std::filesystem::path& file);

  // Writes what the steps did, operator by operator, as torch.profiler would. Of several ranks only the leader writes.
  [[nodiscard]] Result<JobTrace> trace(const TraceRequest& request,
                                       const CancelCheck& is_cancelled);

  // Gives back to the device what LibTorch keeps for later, before another process uses it. The next step takes
  // longer.
  [[nodiscard]] Result<void> release_memory();

  // Multiplies the learning rate besides the schedule: 1 in the initial state; checkpoints carry it.
  [[nodiscard]] double rate_factor() const;
  void set_rate_factor(double factor);
  // The course of the schedule begins anew with the next step, or has begun with the training, wherever it began before; it ends
  // with the training. Checkpoints carry where it began.
  void begin_schedule(bool is_anew);
  // Of the last step that this object made; 0 before the first.
  [[nodiscard]] double last_learning_rate() const;

  // Loader threads work between resume_loading() and pause_loading(); the calls above do both.
  void resume_loading();
  void pause_loading();
  // Cancelling is not an error here: the stretch so far counts.
  [[nodiscard]] Result<Stretch> advance(const StretchLimits& limits,
                                        const CancelCheck& is_cancelled);
  // Over the recipe's test data. ErrorKind::invalid without any. Of several ranks the leader evaluates, and the others
  // learn only whether it was cancelled.
  [[nodiscard]] Result<TestResult> evaluate(const CancelCheck& is_cancelled);

  // Files of samples that could not be read and for which others stood in (on_error: skip): those not yet
  // taken, each once, and how many there are so far. Names and reasons are `where` and `what`.
  [[nodiscard]] std::vector<Error> take_damaged_files();
  [[nodiscard]] std::int64_t damaged_files() const;
  [[nodiscard]] std::vector<std::string> damaged_names() const;  // all so far

  // What went wrong without harm to the training, and damaged files that were found when it was cancelled; not yet
  // taken, each once.
  [[nodiscard]] std::vector<Error> take_warnings();

  // Checkpoints in memory, by name. Each returns the bytes that it holds.
  [[nodiscard]] Result<std::int64_t> keep(const std::string& name);
  [[nodiscard]] Result<void> restore(const std::string& name);
  // The same, but to go on from that place: with its samples and its count of steps. ErrorKind::invalid: the data have
  // no such place.
  [[nodiscard]] Result<void> restore(const std::string& name, const TrainingPlace& place);
  [[nodiscard]] TrainingPlace place() const;
  [[nodiscard]] Result<void> drop(const std::string& name);
  // Files. `note` is text that the caller gets back.
  [[nodiscard]] Result<std::int64_t> export_to(const std::filesystem::path& file,
                                               const std::string& name, const std::string& note);
  [[nodiscard]] Result<std::string> import_from(const std::filesystem::path& file,
                                                const std::string& name);
  // The same for the state as it is now, in two parts: begin_export() takes the time of a copy in memory, and
  // the rest is written beside what the caller does next. At most one at a time: begin_export() REQUIRES
  // !is_exporting(), the others the opposite.
  [[nodiscard]] Result<void> begin_export(const std::filesystem::path& file,
                                          const std::string& note);
  [[nodiscard]] bool is_exporting() const;  // until finish_export()
  [[nodiscard]] bool is_exported() const;   // finish_export() would not wait
  [[nodiscard]] Result<std::int64_t> finish_export();
  // Keeps `name` under `as` with every parameter rounded to 16 bits. The same bytes as keep().
  [[nodiscard]] Result<std::int64_t> round(const std::string& name, const std::string& as);
  // `candidate_base` as for compare() of checkpoints; empty: `base`.
  [[nodiscard]] Result<Comparison> compare(const std::string& base, const std::string& reference,
                                           const std::string& candidate,
                                           const std::string& candidate_base = {}) const;

  // What tells the recipe's data from others (data_identity.hpp): `train`, and `test` where there are such data. The same
  // whatever configuration, ranks and order of the samples are. Reads some samples of each.
  [[nodiscard]] Result<Json> data_identity() const;

  [[nodiscard]] Result<std::string> digest();
  // Of the parameters alone.
  [[nodiscard]] Result<std::string> parameter_digest();
  // With an average of the weights, also model_ema.pt beside a file model.pt.
  [[nodiscard]] Result<std::int64_t> save_model(const std::filesystem::path& file);

 private:
  explicit Job(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::trainer
