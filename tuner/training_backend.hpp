// SPDX-License-Identifier: Apache-2.0
// What runs the training job for the tuner: the session process over trainers (daemon/trainers/trainer_job.hpp) or over a script
// of the user (daemon/scripts/script_job.hpp), or a simulation in tests and benchmarks.
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

// In which process a configuration is measured.
enum class ProcessChoice { reuse, fresh };

struct BlockRequest {
  std::chrono::nanoseconds minimum_duration = std::chrono::milliseconds(100);
  std::int64_t minimum_steps = 1;
  // What is kept from step to step instead of loading anew: one of kRungs (tuner/ceiling.hpp), ""
  // for nothing. Where that would be no other block, the answer is ErrorKind::unsupported.
  std::string reuse = {};
  // Of a trial's candidate: a gain that it claims must be one by every clock.
  bool is_candidate = false;
};

// How the updates of two configurations compare after the same steps from the same state.
struct UpdateComparison {
  struct Parameter {
    std::string name;
    double reference_norm = 0.0;
    double norm_ratio = 0.0;  // candidate over reference
    double cosine = 0.0;
    // Where the trainer tells it: of a reference that does not move at all the ratio says nothing.
    std::optional<double> candidate_norm = std::nullopt;
  };
  struct Buffer {
    Parameter update;
    bool is_floating = false;
    bool is_equal = false;  // value for value
  };
  // Of the models' answers in evaluation mode, on one batch: norms.
  struct Outputs {
    double reference_change = 0.0;  // what the reference's steps made of its answer
    double difference = 0.0;        // between the two after the steps
  };
  // What the model was given in a step.
  struct StepInput {
    std::string labels;  // hashes of the values, in order
    std::string images;
    // One number for each sample, nearly equal where pixels differ by rounding only.
    std::vector<double> projections;
  };
  std::int64_t steps = 0;
  bool equal = false;   // parameters, buffers and outputs, value for value
  bool finite = false;  // no NaN or Inf in the candidate
  std::vector<Parameter> parameters;
  std::vector<double> reference_losses;
  std::vector<double> candidate_losses;
  std::vector<Buffer> buffers;
  // These where the trainer tells them.
  std::optional<Outputs> outputs = std::nullopt;
  std::vector<StepInput> reference_inputs;
  std::vector<StepInput> candidate_inputs;
};

// Which steps are compared. Those of `later` and `reached` are made in the process that was measured, after as many steps as
// it has made and at the samples where it stands; their second half is at the end of an epoch and the beginning of the next.
enum class CheckedSteps {
  first,  // of a training, from its initial parameters, buffers and moments
  later,  // from the same
  // From the parameters, buffers and moments that the candidate's process has now, after blocks or a training. The learning
  // rate is that after nine tenths of the recipe's training: at the end of a schedule it may be zero.
  reached,
};

struct Profile {
  Json metrics = Json::object();  // docs/metrics.md
  Json spans = Json::array();
  Json operators = Json::array();
  // By the signal that is about certain operators: the module that spends most of their time, as `module`, and its
  // `share_ratio` of it. Of the trace that was added.
  Json places = Json::object();
  std::vector<FindingRecord> findings;  // of the trace that was added
  std::vector<std::string> notes;       // what could not be recorded, for people
};

// Blocks until the answer is there. Errors mean that the *configuration* could not do it (out of
// memory, crash, timeout, unsupported): the backend itself goes on to work after any of them but
// ErrorKind::cancelled, which means that somebody asked the run to stop.
class TrainingBackend {
 public:
  TrainingBackend() = default;
  TrainingBackend(const TrainingBackend&) = delete;
  TrainingBackend& operator=(const TrainingBackend&) = delete;
  virtual ~TrainingBackend() = default;

  // Whether the steps of blocks and checks are those of the training that the user gets. Nothing takes them back, so a
  // candidate is checked before it is timed, and there are no first steps to look at once more.
  [[nodiscard]] virtual bool trains_for_real() const { return false; }

  // Makes `configuration` ready to be measured in a trial: a trainer of its own where its restart knobs differ from those
  // of running ones (with `fresh`, a new process even where one is running), warmed until its rate is flat, its training
  // back at the initial state. Not timed.
  virtual Result<void> make_ready(const Configuration& configuration, ProcessChoice process) {
    static_cast<void>(configuration);
    static_cast<void>(process);
    return {};
  }

  // Whether the two can be measured in one process, switched live.
  [[nodiscard]] virtual bool share_process(const Configuration& one,
                                           const Configuration& other) const {
    static_cast<void>(one);
    static_cast<void>(other);
    return true;
  }

  // One block under `configuration`, after switching or restarting as its knobs need and dropping
  // their warm-up steps. Alternating between two configurations costs a live switch at most, except
  // where two trainers do not fit into memory.
  virtual Result<Block> run_block(const Configuration& configuration,
                                  const BlockRequest& request) = 0;

  // From the same state and samples, `steps` steps under each.
  virtual Result<UpdateComparison> compare_updates(const Configuration& reference,
                                                   const Configuration& candidate,
                                                   std::int64_t steps, CheckedSteps which) = 0;

  // The steps of the last compare_updates() under `configuration` from the state that those began at, and (as the candidate) from
  // that state with its parameters rounded to 16 bits: how far the job itself keeps the direction of its updates where
  // nothing but rounding differs. ErrorKind::unsupported: the job cannot do that, and is held against the usual limits.
  virtual Result<UpdateComparison> compare_rounded(const Configuration& configuration) = 0;

  virtual Result<Profile> profile(const Configuration& configuration) = 0;

  // Records a few steps under `configuration`, of which `profile` is, in a process that nothing is timed in and that
  // has ended by then, within about `limit`: adds signals to its metrics, findings and notes. After an error the
  // profile is as it was. A job that cannot be recorded adds nothing.
  virtual Result<void> add_trace(const Configuration& configuration, Profile& profile,
                                 std::chrono::nanoseconds limit) {
    static_cast<void>(configuration);
    static_cast<void>(profile);
    static_cast<void>(limit);
    return {};
  }
};

}  // namespace autotuned::tuner
