// SPDX-License-Identifier: Apache-2.0
// Runs the training job for the tuner. The session process implements it over trainers (daemon/trainers/trainer_backend.hpp) and over a
// script of the user (daemon/scripts/script_backend.hpp); tests and benchmarks implement it as a simulation.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/finding.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"

namespace autotuned::tuner {

// The process in which a configuration is measured.
enum class ProcessChoice {
  reuse,  // a running one that has the same restart knobs, if there is one
  fresh,  // a new one
  alone,  // a new one, and no other process of the job runs beside it
};

// The block that run_block() should run.
struct BlockRequest {
  std::chrono::nanoseconds minimum_duration = std::chrono::milliseconds(100);
  std::int64_t minimum_steps = 1;
  // One of kRungs (tuner/ceiling.hpp): what is kept from step to step instead of being loaded anew; "" for nothing. If the rung would not
  // change the block, the answer is ErrorKind::unsupported.
  std::string reuse = {};
  // For a block of a trial's candidate: the configuration that it is compared with, because a gain must show on every clock. Null for
  // every other block.
  const Configuration* reference = nullptr;
};

// The difference between the updates of two configurations after the same steps from the same state.
struct UpdateComparison {
  struct Parameter {
    std::string name;
    double reference_norm = 0.0;
    double norm_ratio = 0.0;  // candidate over reference
    double cosine = 0.0;
    // Set if the trainer reports it. Needed because norm_ratio has no meaning if the reference does not move.
    std::optional<double> candidate_norm = std::nullopt;
  };
  struct Buffer {
    Parameter update;
    bool is_floating = false;
    bool is_equal = false;  // value for value
  };
  // Norms of the models' outputs in evaluation mode, for a few batches in a row.
  struct Outputs {
    double reference_change = 0.0;  // how far the steps moved the reference's outputs
    double difference = 0.0;  // between the candidate's and the reference's outputs after the steps
  };
  // The updates of a parameter by one step with gradients of zero, from one state: what the optimizer does by itself.
  struct Idle {
    std::string name;
    double reference_norm = 0.0;
    double difference = 0.0;  // the norm of candidate - reference
    double parameter_norm = 0.0;
  };
  // The figures of a part of the test data, for the state that the steps begin at.
  struct Test {
    std::int64_t samples = 0;
    double loss = 0.0;                              // NaN: not known
    std::optional<double> accuracy = std::nullopt;  // of classes and tokens
  };
  // The input of the model in one step.
  struct StepInput {
    std::string labels;  // hashes of the values, in order
    std::string images;
    // One number for each sample; nearly equal for pixels that differ by rounding only.
    std::vector<double> projections;
  };
  std::int64_t steps = 0;
  bool equal = false;   // parameters, buffers and outputs, value for value
  bool finite = false;  // no NaN or Inf in the candidate
  std::vector<Parameter> parameters;
  std::vector<double> reference_losses;
  std::vector<double> candidate_losses;
  std::vector<Buffer> buffers;
  // The members below are set only if the trainer reports them.
  std::optional<Outputs> outputs = std::nullopt;
  std::vector<StepInput> reference_inputs;
  std::vector<StepInput> candidate_inputs;
  std::vector<Idle> idle = {};
  // Both or none.
  std::optional<Test> reference_test = std::nullopt;
  std::optional<Test> candidate_test = std::nullopt;
  // Of CheckedSteps::reached, at most one: the same steps once more, from the same state but with the initial
  // moments of the optimizer. Its outputs are not reported.
  std::vector<UpdateComparison> renewed = {};
};

// Returns how the inputs of the model differ; nothing if they do not. Labels must be equal, and samples equal except
// for rounding; if `is_exact`, bit for bit.
[[nodiscard]] std::optional<std::string> input_fault(const UpdateComparison& updates,
                                                     bool is_exact);

// How far the figures of the test data may be apart.
struct TestLimits {
  double loss = 0.0;
  double accuracy = 0.0;
};
// Returns which figure of the test data is farther apart than that; nothing if none is, or if there are no figures.
[[nodiscard]] std::optional<std::string> test_fault(const UpdateComparison& updates,
                                                    const TestLimits& limits);

// The norm of the reference's longest update of a parameter.
[[nodiscard]] double largest_reference_norm(const UpdateComparison& updates);

// The distance between the two updates, as a share of the reference's length.
[[nodiscard]] double distance_of(const UpdateComparison::Parameter& update);

// The distance between the outputs of the two models, as a share of the change that the steps made to the reference's.
[[nodiscard]] double output_share(const UpdateComparison::Outputs& outputs);

[[nodiscard]] bool losses_are_finite(const std::vector<double>& losses);
// Whether the reference's losses and updates are finite.
[[nodiscard]] bool is_reference_finite(const UpdateComparison& updates);
// Whether the candidate alone reaches NaN or infinity. A buffer may hold infinities in both, such as a mask.
[[nodiscard]] bool diverges_alone(const UpdateComparison& updates);

// The steps that are compared. Those of `later` and `reached` run in the process that was measured, after the steps that it has made and
// from the sample that it has reached. Their second half covers the end of an epoch and the beginning of the next.
enum class CheckedSteps {
  first,  // the first steps of a training, from its initial parameters, buffers and moments
  later,  // later steps, also from the initial parameters, buffers and moments
  // Later steps, from the parameters, buffers and moments that the candidate's process has reached after
  // blocks or a training. The learning rate is that after nine tenths of the recipe's training, because at
  // the end of a schedule it may be zero. If one of the configurations has an extension on, the steps are made a second
  // time (UpdateComparison::renewed): an extension may have made the moments so large that gradients no longer count.
  // So they are if a configuration is compared with itself after such a comparison.
  reached,
};

// Where the time of a configuration goes.
struct StepProfile {
  Json metrics = Json::object();  // docs/metrics.md
  Json spans = Json::array();
  Json operators = Json::array();
  // For each signal about certain operators: the module that spends most of their time (`module`) and its share of that time
  // (`share_ratio`, 0 to 1). From the trace that add_trace() added.
  Json places = Json::object();
  std::vector<FindingRecord> findings;  // from the trace that add_trace() added
  std::vector<std::string> notes;       // sentences about what could not be recorded
};

// Every call blocks until it has the answer. An error means that the *configuration* failed (out of memory,
// crash, timeout, unsupported). The backend still works after any error except ErrorKind::cancelled, which
// means that the run was asked to stop.
//
// A job that is only measured, such as that of a guard, does not override checks and profiles, which then answer
// ErrorKind::unsupported.
class TrainingBackend {
 public:
  TrainingBackend() = default;
  TrainingBackend(const TrainingBackend&) = delete;
  TrainingBackend& operator=(const TrainingBackend&) = delete;
  virtual ~TrainingBackend() = default;

  // Whether the steps of blocks and checks belong to the training that the user gets. They cannot be undone
  // then, so a candidate is checked before it is timed, and checks cannot repeat the first steps of the
  // training.
  [[nodiscard]] virtual bool trains_for_real() const { return false; }

  // Makes `configuration` ready to be measured in a trial. Starts a trainer if no running one has the same
  // restart knobs, or always with ProcessChoice::fresh and ::alone; warms it until its rate is steady; puts its
  // training back to the initial state. Not timed. `reference`: as in BlockRequest, so that only a candidate is to
  // blame for what an extension leaves behind.
  virtual Result<void> make_ready(const Configuration& configuration, ProcessChoice process,
                                  const Configuration* reference) {
    static_cast<void>(configuration);
    static_cast<void>(process);
    static_cast<void>(reference);
    return {};
  }

  // Whether the two configurations can be measured in one process and switched live.
  [[nodiscard]] virtual bool share_process(const Configuration& one,
                                           const Configuration& other) const {
    static_cast<void>(one);
    static_cast<void>(other);
    return true;
  }

  // Runs one block under `configuration`. Switches or restarts as its knobs need, and drops its warm-up
  // steps. Alternating between two configurations costs at most a live switch, unless two trainers do not fit
  // into memory.
  virtual Result<Block> run_block(const Configuration& configuration,
                                  const BlockRequest& request) = 0;

  // The share of the time of blocks that checkpoints take, where blocks after the first profile include one and those
  // before it do not; else 0.
  [[nodiscard]] virtual double checkpoint_share_ratio() const { return 0.0; }

  // The wall-clock time in which the process that was warmed last became steady, after its start; 0: none was warmed,
  // or none needs it.
  [[nodiscard]] virtual std::chrono::nanoseconds warm_up_time() const {
    return std::chrono::nanoseconds{0};
  }

  // Makes `steps` steps under each configuration, from the same state with the same samples, and compares
  // them. Error::is_of_reference: a process failed in which the candidate does not run.
  virtual Result<UpdateComparison> compare_updates(const Configuration& reference,
                                                   const Configuration& candidate,
                                                   std::int64_t steps, CheckedSteps which) {
    static_cast<void>(reference);
    static_cast<void>(candidate);
    static_cast<void>(steps);
    static_cast<void>(which);
    return fail(ErrorKind::unsupported, kOnlyMeasured);
  }

  // Repeats the steps of the last compare_updates() twice under `configuration`: from the same state (the
  // reference) and from that state with its parameters rounded to 16 bits (the candidate). It shows how much
  // rounding alone changes the updates of this job. ErrorKind::unsupported: the job cannot do that, and the
  // usual limits apply.
  virtual Result<UpdateComparison> compare_rounded(const Configuration& configuration) {
    static_cast<void>(configuration);
    return fail(ErrorKind::unsupported, kOnlyMeasured);
  }

  // Moves the state that the process of one configuration has reached to that of another: keep_state() takes a copy,
  // and take_state() continues there with it, in a process that has made steps before. Only asked of two
  // configurations that share no process. REQUIRES for take_state(): keep_state() was called since the last one.
  virtual Result<void> keep_state(const Configuration& of) {
    static_cast<void>(of);
    return fail(ErrorKind::unsupported, kOnlyMeasured);
  }
  virtual Result<void> take_state(const Configuration& into) {
    static_cast<void>(into);
    return fail(ErrorKind::unsupported, kOnlyMeasured);
  }

  virtual Result<StepProfile> profile(const Configuration& configuration) {
    static_cast<void>(configuration);
    return fail(ErrorKind::unsupported, kOnlyMeasured);
  }

  // Traces a few steps under `configuration` within about `limit`, in a process of its own in which nothing
  // is timed and which has ended when the call returns. Adds signals to the metrics of `profile`, which is
  // one of `configuration`, and findings and notes. After an error `profile` is unchanged. A job that cannot
  // be traced adds nothing.
  virtual Result<void> add_trace(const Configuration& configuration, StepProfile& profile,
                                 std::chrono::nanoseconds limit) {
    static_cast<void>(configuration);
    static_cast<void>(profile);
    static_cast<void>(limit);
    return {};
  }

 private:
  static constexpr const char* kOnlyMeasured = "this job is only measured";
};

}  // namespace autotuned::tuner
