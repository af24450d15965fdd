// SPDX-License-Identifier: Apache-2.0
// A script of the user as the job that the tuner measures: one process with two live configurations, in which every step of
// a block and of a check is a step of the training that the user gets.
//
// Steps that are measured, profiled or checked are made under the measurement lock: another session that measures on this
// machine waits for them, and the script waits for its blocks. The steps begin when the script makes some, and an evaluation
// may come first: where a request takes seconds more than its steps should, the lock is dropped, and the steps that
// still come are made beside other sessions.
//
// The state of the script is never restored, no process is started, and no knob that needs another process is offered:
// make_ready() and share_process() are those of the interface. Between two requests the script waits at the end of a
// step. After load(), the caller must go on with requests, or release the script with finish().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/configuration.hpp"
#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/scripts/agent_client.hpp"
#include "daemon/trainers/measurement_lock.hpp"
#include "recipes/knobs.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::daemon {

// How many steps of the training ran under a configuration.
struct StepsUnder {
  Configuration configuration;
  std::int64_t steps = 0;
};

// One thread. After ErrorKind::cancelled there is nothing more to ask: end() says why.
class ScriptBackend final : public tuner::TrainingBackend {
 public:
  // `agent`: our end of the socket that the script has inherited. `cancel` must outlive the job. `most_stall`: how much
  // longer than its steps a request may take before the measurement lock is dropped.
  ScriptBackend(Descriptor agent, CancelSource& cancel, MeasurementLock lock,
                std::chrono::nanoseconds most_stall = std::chrono::seconds(5))
      : agent_(std::move(agent), cancel),
        cancel_(&cancel),
        measurement_lock_(std::move(lock)),
        most_stall_(most_stall) {}

  // The longest wait for the blocks of other sessions, from now on.
  void limit_turn_wait(std::chrono::nanoseconds limit) { measurement_lock_.set_limit(limit); }

  // Waits until the script has imported PyTorch. Its hello is known then.
  Result<void> greet();
  // Waits until the step of the script is known. From then on the script waits for requests. The objects that
  // were found, the knobs and the own configuration of the script are known then.
  Result<void> load();

  [[nodiscard]] const Json& hello() const { return hello_; }
  [[nodiscard]] const Json& facts() const { return facts_; }
  [[nodiscard]] const std::vector<recipes::Knob>& knobs() const { return knobs_; }
  [[nodiscard]] const Configuration& starting() const { return starting_; }
  // What is worth a word about the script, for a user who permits `allow`: risk classes and knobs.
  [[nodiscard]] std::vector<std::string> notes(const std::vector<std::string>& allow) const;

  // Whether blocks count samples; else each step counts as one.
  [[nodiscard]] bool has_samples() const { return has_samples_; }
  // The samples of a step when the script was loaded; 1 if samples are not counted.
  [[nodiscard]] std::int64_t samples_per_step() const;

  [[nodiscard]] bool trains_for_real() const override { return true; }
  // At least two clean steps, in which only training happened. If samples are not counted, a step counts as
  // one. A block that finds no such steps for minutes is requested once more; after that the script does
  // something else, and tuning ends: ErrorKind::cancelled.
  Result<Block> run_block(const Configuration& configuration,
                          const tuner::BlockRequest& request) override;
  // The real steps are made under `reference`, from the present state of the training; the candidate computes
  // each of them once more.
  Result<tuner::UpdateComparison> compare_updates(const Configuration& reference,
                                                  const Configuration& candidate,
                                                  std::int64_t steps,
                                                  tuner::CheckedSteps which) override;
  Result<tuner::UpdateComparison> compare_rounded(const Configuration& configuration) override;
  Result<tuner::StepProfile> profile(const Configuration& configuration) override;

  // Releases the script, which goes on with `configuration`. `reason` is for readers of the log of the
  // script; `kept`, if it is an object, for the loggers that the script uses (docs/trainer-protocol.md).
  Result<void> finish(const Configuration& configuration, const std::string& reason,
                      const Json& kept = Json());
  // After finish(): waits for the end of the script. Returns whether steps() is the number of all its steps.
  bool see_out();
  // How the conversation ended; nothing while the agent still answers.
  [[nodiscard]] const std::optional<AgentEnd>& end() const { return agent_.end(); }
  // The steps since load() by configuration, in the order of their first step. The steps of a check count for the
  // reference.
  [[nodiscard]] const std::vector<StepsUnder>& steps_under() const { return steps_under_; }
  // The steps since the start of the script, as of the last count.
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  struct Note {
    std::string text;
    std::string unless_permitted;  // a knob; empty: it is told in any case
  };

  Result<void> prepare(const Configuration& configuration, Patience patience);
  // Sends a request that makes steps under this configuration, which should take `expected`. `fields` gives its fields;
  // it is called once the configuration is in force, and again if the script has made its model or optimizer anew
  // meanwhile. After a few such repetitions: ErrorKind::cancelled.
  Result<Json> ask_for_steps(const Configuration& configuration, const std::string& name,
                             std::chrono::nanoseconds expected,
                             const std::function<Json()>& fields);
  // The time that `steps` steps take by the last block; 0 before the first block.
  [[nodiscard]] std::chrono::nanoseconds time_of(std::int64_t steps) const {
    return steps * step_time_;
  }
  // Adds the steps since the last count to a configuration.
  Result<void> count_steps(const Configuration& configuration);

  AgentClient agent_;
  CancelSource* cancel_;
  MeasurementLock measurement_lock_;
  std::chrono::nanoseconds most_stall_;
  std::chrono::nanoseconds step_time_{0};
  Json hello_;
  Json facts_;
  std::vector<recipes::Knob> knobs_;
  std::vector<Note> notes_;
  Configuration starting_;
  std::optional<Configuration> in_force_;  // nothing: not known
  int warmup_steps_ = 0;                   // of the last switch, still to be made
  std::int64_t checked_steps_ = 0;         // of the last compare_updates()
  bool has_samples_ = false;
  std::vector<StepsUnder> steps_under_;
  std::int64_t steps_ = 0;
};

}  // namespace autotuned::daemon
