// SPDX-License-Identifier: Apache-2.0
// One run of a recipe in the session process, from its request to its result. Used by session_process.cpp alone.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/machine_state.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/session/known_knobs.hpp"
#include "daemon/session/output_folder.hpp"
#include "daemon/session/plugin_advisors.hpp"
#include "daemon/session/sequel.hpp"
#include "daemon/session/session_control.hpp"
#include "daemon/session/session_device.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "storage/history.hpp"
#include "tuner/session.hpp"

namespace autotuned::daemon {

// Everything that one session holds, in the order in which it is made.
class RunningSession {
 public:
  RunningSession(SessionRequest request, SessionControl& control)
      : request_(std::move(request)),
        control_(&control),
        device_(request_.recipe, machine_, control) {
    trainer_plugins_ = trainer_plugins_here(request_.plugin_folders, request_.without);
    knobs_ = knobs_with(recipes::knobs_of(machine_), trainer_plugins_);
    recipe_as_given_ = request_.recipe;
    request_.recipe.start = known_part(knobs_, request_.recipe.start);
    knobs_ = recipes::with_ranks(std::move(knobs_), request_.recipe.train.ranks);
  }

  // Does the whole run. Returns the exit code of the command.
  Result<int> run();

 private:
  // Of train(), over all of its attempts.
  struct TrainingProgress {
    Json as_begun;  // RunRow::training without what this process fell back to for lack of memory
    std::optional<std::int64_t> checkpoint_step;  // of the last one; nothing: none was reported yet
  };

  Result<void> open_history();
  // The folder of the results, after what they would replace was looked at.
  Result<void> open_output();
  Result<void> start_job();
  Result<void> open_run();
  Result<void> begin_run(const storage::RunKey& key);
  Result<void> claim_new_run();
  Result<void> continue_run(storage::RunRow row);
  // Reports what disturbs the measurements, and stores it for the story of the run.
  Result<void> record_findings(const std::vector<MachineFinding>& findings);
  // Checks that the disk has space for the files of the training. Warns if they may not fit; an error if they cannot.
  Result<void> check_space();
  Result<void> load_plugins();
  Result<tuner::SessionInput> search_input(const PluginAdvisors& advisors);
  std::vector<TrialRecord> decided_earlier();
  Result<void> tune();
  Result<void> store_outcome(const tuner::SessionOutcome& outcome, const MachineState& state_at_end,
                             bool is_continued);
  Result<void> train();
  // Stores the identity of the training data, as the trainer tells it.
  void take_data(const Json& data);
  // Called after an error of the training. Returns whether there is another configuration to go on with after this
  // one, and records it: where extensions are to blame, or after a lack of memory.
  Result<bool> fall_back(const Error& error, TrainingProgress& progress);
  Result<bool> fall_back_to_smaller(const Error& error);
  // `ends`: 0, or how often the trainer has ended: the extensions are only suspected then.
  Result<bool> leave_out_extensions(const Error& error, TrainingProgress& progress, int ends = 0);
  // Called after the trainer has ended `ends` times: leaves out all extensions of the tuned configuration.
  Result<void> suspect_extensions(const Error& error, TrainingProgress& progress, int ends);
  // The error of the run whose training has failed for good, and what the same command continues with.
  Error give_up_training(const Error& error, const TrainingProgress& progress);
  // Stores the configuration that the training went on with as the best one, for later runs of this job.
  Result<void> keep_what_trained();
  // Saves the model, and publishes the best one.
  Result<void> save_model();
  void note_digests();  // of the model that was saved
  // The id of the run whose model is in the folder of a run that only tunes; empty for none. Such a run leaves best.yaml
  // and summary.json there alone: they describe the model. May read all runs of the history.
  [[nodiscard]] std::string kept_training() const;
  Result<void> write_best();
  // The check after the training. A failure of it does not change the saved model.
  Result<void> check_trained_model();
  // `kept`: kept_training().
  Result<int> finish(const std::string& kept);
  // The work that is left once the history says that the run has finished.
  Result<int> conclude_finished(const std::string& kept);
  int end_with(const Error& error);
  int conclude(int exit_code, const std::string& kept = {});

  [[nodiscard]] std::filesystem::path checkpoint() const {
    return request_.recipe.output_dir / ("checkpoint-" + run_.id.text + ".pt");
  }
  [[nodiscard]] std::filesystem::path model() const {
    return request_.recipe.output_dir / "model.pt";
  }
  // The job, without what earlier runs and processes found out about it.
  [[nodiscard]] tuner::SessionInput job_input() const;
  void report(const Json& event) { control_->report(event); }
  void warn(const std::vector<std::string>& sentences) {
    for (const std::string& text : sentences)
      report({{"event", "warning"}, {"text", text}});
  }
  // How this session is named to others who wait for its locks.
  [[nodiscard]] std::string holder_text() const {
    return (has_run_ ? "run " + run_.id.text : "a run") + " of " + request_.recipe.name +
           ", process " + std::to_string(::getpid());
  }
  void take_event_of_search(const Json& event);
  void take_trainer_end(TrainerEnd end);

  SessionRequest request_;  // its recipe starts from known knobs only
  recipes::Recipe recipe_as_given_;
  SessionControl* control_;
  SystemClock clock_;
  InstallationPaths paths_ = find_installation_paths();
  Machine machine_ = detect_machine();
  MachineState state_at_start_;
  std::vector<MachineFinding> found_device_;  // findings that the device is not the expected one
  std::vector<plugins::FoundPlugin> trainer_plugins_;  // their code never runs here
  std::vector<recipes::Knob> knobs_;
  std::vector<plugins::FoundPlugin> plugins_;
  std::optional<storage::History> history_;
  Json trained_data_;  // null: the trainer has not told yet
  SessionDevice device_;
  OutputFolder output_;
  Descriptor claim_;  // of the run: we are at work on it
  std::optional<TrainerBackend> job_;
  std::chrono::nanoseconds start_time_{0};  // of the first trainer
  storage::RunRow run_;
  bool has_run_ = false;
  std::string error_before_;  // by which an earlier process of the run ended; empty: by none
  // Only results are left to write: an error then is one of the output folder, and costs no training.
  bool has_trained_ = false;
  std::optional<Sequel> sequel_;  // what this run goes on with
  int trial_ = 0;                 // that is going on; 0: none
  std::vector<TrialRecord> earlier_;
};

}  // namespace autotuned::daemon
