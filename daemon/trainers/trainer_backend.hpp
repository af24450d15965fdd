// SPDX-License-Identifier: Apache-2.0
// The training job over trainer processes: switches live where it can, keeps a second trainer for
// configurations that differ in a knob that needs a restart, and replaces a trainer that died. While one trainer is
// asked something, the others are stopped (SIGSTOP); one that uses CPU time all the same fails the block. So does a trainer whose
// priority or CPUs were changed from outside.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/machine/machine.hpp"
#include "base/process/process_family.hpp"
#include "base/process/thread_settings.hpp"
#include "daemon/trainers/measurement_lock.hpp"
#include "daemon/trainers/outside_time.hpp"
#include "daemon/trainers/process_knobs.hpp"
#include "daemon/trainers/trainer_client.hpp"
#include "daemon/trainers/trainer_reports.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::daemon {

struct TrainerBackendSpec {
  recipes::Recipe recipe;
  std::vector<recipes::Knob> knobs;
  std::vector<std::string> extension_knobs;  // those of `knobs` that trainer extensions obey
  Json plugins = Json::array();              // files of the libraries that trainers are to know
  std::filesystem::path trainer;
  std::filesystem::path folder;  // for logs and exchanged checkpoints; must exist
  std::chrono::nanoseconds block_limit = std::chrono::seconds(60);  // beyond the block's own length
  // How long the first of several ranks may stay stopped (SIGSTOP). The others end it sooner (trainer/ranks), unless they
  // are gone, stopped too, or not there yet.
  std::chrono::nanoseconds stopped_limit = std::chrono::seconds(15);
  std::vector<int> device_locks;  // inherited by every trainer
  // The lock held during each block, check, profile and trace and its preparation: devices share the CPUs. Empty: none.
  std::filesystem::path measurement_lock;
  std::chrono::nanoseconds measurement_lock_limit = std::chrono::minutes(10);
  std::int64_t memory_limit_bytes = 0;  // of the host, for all trainers of trials; 0: any
  // Receives each damaged file whose samples are replaced (on_error: skip), once for all trainers: `file`, `what`,
  // and `files`, the number of such files so far. May be empty.
  std::function<void(const Json&)> on_damage;
  // Receives how a trainer ended early; the request that it was answering fails. May be empty.
  std::function<void(TrainerEnd)> on_trainer_end;
  // Receives each warning of a trainer once. May be empty.
  std::function<void(const std::string&)> on_warning;
};

// The host memory that the trainers of trials may hold. The recipe's limit is about the device: on a GPU only the limit's
// share of the device's memory says something about the host.
[[nodiscard]] std::int64_t host_memory_limit_bytes(const recipes::Recipe& recipe,
                                                   const Machine& machine);

// Whether a trainer failed because another process has what it needs: memory, or a GPU in EXCLUSIVE_PROCESS mode.
[[nodiscard]] bool is_resource_shortage(const Error& error);

class TrainerBackend final : public tuner::TrainingBackend {
 public:
  // `cancel` must outlive the job.
  TrainerBackend(TrainerBackendSpec spec, CancelSource& cancel);
  ~TrainerBackend() override;

  // Starts a trainer for `configuration` and loads the recipe. The trainer's hello and its answer to
  // `load` are then known. Removes what a session that was killed in a trace or a check has left of it.
  Result<void> start(const Configuration& configuration);
  // Replaces the spec's device locks for trainers that are started from now on.
  void inherit_locks(std::vector<int> device_locks) {
    spec_.device_locks = std::move(device_locks);
  }
  [[nodiscard]] const Json& hello() const { return hello_; }
  [[nodiscard]] const Json& facts() const { return facts_; }

  // If two trainers fit into memory when they load but not in a block, each is measured alone from then on, by restart.
  // A block that fails beside another trainer is measured alone the next time. The `one_time_ns` of a block includes
  // the time of the first switch to its configuration by our clock, if that was a second or more.
  Result<Block> run_block(const Configuration& configuration,
                          const tuner::BlockRequest& request) override;
  // What extensions have left behind in the process that makes room fails only a candidate that differs from its
  // reference in their knobs. Else it is told as a warning.
  Result<void> make_ready(const Configuration& configuration, tuner::ProcessChoice process,
                          const Configuration* reference) override;
  [[nodiscard]] bool share_process(const Configuration& one,
                                   const Configuration& other) const override;
  [[nodiscard]] double checkpoint_share_ratio() const override { return checkpoint_share_ratio_; }
  [[nodiscard]] std::chrono::nanoseconds warm_up_time() const override { return warm_up_time_; }
  Result<tuner::UpdateComparison> compare_rounded(const Configuration& configuration) override;
  Result<void> keep_state(const Configuration& of) override;
  Result<void> take_state(const Configuration& into) override;
  Result<tuner::UpdateComparison> compare_updates(const Configuration& reference,
                                                  const Configuration& candidate,
                                                  std::int64_t steps,
                                                  tuner::CheckedSteps which) override;
  Result<tuner::StepProfile> profile(const Configuration& configuration) override;
  // Records the trace in a trainer of its own: CUPTI stays attached to a process and slows it down. The trace stays in
  // the job's folder.
  Result<void> add_trace(const Configuration& configuration, tuner::StepProfile& profile,
                         std::chrono::nanoseconds limit) override;
  // Sends the request `trace` with these fields and returns its answer; waits at most `limit` beyond the block limit.
  Result<Json> trace(const Configuration& configuration, Json fields,
                     std::chrono::nanoseconds limit);

  // Trains to the recipe's end with `configuration` in a trainer of its own; every other one is
  // stopped first. Returns the answer to `train`, and leaves that trainer for save(), and for compare_updates() from where
  // the training has come to (tuner::CheckedSteps::reached). `extend` is that field of `train`: where to start from when the
  // checkpoint is not there; null: from the initial state.
  Result<Json> train(const Configuration& configuration, const std::filesystem::path& checkpoint,
                     const std::function<void(const Json&)>& on_progress, const Json& extend = {});
  // Stops all trainers of this job (SIGSTOP) until its next request, because another job is going to be measured.
  void suspend_all() { suspend_others(nullptr); }
  // Writes the model that train() has trained.
  Result<Json> save(const std::filesystem::path& file);
  void stop();

 private:
  // The time that a switch to a configuration took, without the filling that blocks report. It includes what an
  // extension does when it is switched on, and what the following steps do once, such as recording a graph.
  struct Switch {
    std::chrono::nanoseconds beside_steps{0};
    std::chrono::nanoseconds in_steps{0};
    std::int64_t steps = 0;  // usual ones, which are no part of it
  };
  struct Trainer {
    TrainerClient client;
    ProcessFamily processes;
    std::string key;                   // ProcessKnobs::key_of()
    Configuration configuration;       // for which it is prepared
    std::chrono::nanoseconds step{0};  // of the last block; 0 before the first
    std::set<std::string> copies;      // checkpoints of a check, there or asked for
    bool has_extension = false;        // runs or will run the code of one
    bool is_warm = false;
    bool has_released = false;  // its memory on the device, which its next step takes anew
    GroupSettings settings;     // of its threads when it was stopped
    std::string interference;   // what of these was changed while it was stopped; empty: nothing
    std::map<std::string, Switch> switches;  // by configuration: the first one to it
    std::int64_t told_one_time_ns = 0;       // by the last block
  };
  using TrainerList = std::list<Trainer>;

  // A live trainer whose restart knobs match, prepared for `configuration`.
  Result<Trainer*> trainer_for(const Configuration& configuration);
  // Starts without the live knobs of extensions: prepare() switches these, so that the time of the switch is measured.
  Result<Trainer*> start_trainer(const Configuration& configuration);
  Result<Trainer*> prepared(Trainer& trainer, const Configuration& configuration);
  // A trainer that has loaded the recipe, and its answer to that.
  struct Loaded {
    TrainerClient client;
    std::string mark;  // NAME=value in its environment, and in that of what it starts
    Json facts;
  };
  Result<Loaded> load_trainer(const Configuration& configuration, std::chrono::nanoseconds limit,
                              std::function<void(TrainerEnd)> on_end);
  // Ends trainers until one more may be started.
  void make_room();
  // Removes the partial traces of trainers that were killed while they wrote one.
  void remove_unfinished_traces() const;
  // Takes the measurement lock: until it is released, no other session of this user measures.
  [[nodiscard]] Result<Descriptor> lock_measurement();
  // The trainer's answer to `trace`; the trainer has then ended. Subtracts the time that it took from `left`, without the
  // wait for other sessions that measure.
  Result<Json> record_trace(const Configuration& configuration, const std::filesystem::path& file,
                            std::chrono::nanoseconds& left);
  Result<void> prepare(Trainer& trainer, const Configuration& configuration);
  // The number of untimed steps after a switch or a restore: both may move memory, and a graph is then recorded again.
  [[nodiscard]] int steps_to_record(const Configuration& configuration) const;
  // `stepped` are the steps that the trainer was warmed with after the switch.
  static void note_switch(Trainer& trainer, std::chrono::nanoseconds taken,
                          const std::optional<Block>& stepped);
  // Sends a request to this trainer while all others are stopped.
  Result<Json> ask(Trainer& trainer, const std::string& name, Json fields,
                   std::chrono::nanoseconds limit);
  // Adds to an error which rank has ended. The trainer itself tells this of other ranks; if the trainer has ended, it
  // is the first rank.
  [[nodiscard]] Error with_rank(const TrainerClient& client, Error error) const;
  // The same for what is timed: ErrorKind::unsupported where another trainer used CPU time meanwhile, where the
  // scheduling of a trainer was changed, or where it is not that of the other one: each is a disturbance
  // (Error::is_disturbance). Ends trainers whose scheduling is not what it was.
  Result<Json> ask_undisturbed(Trainer& trainer, const std::string& name, Json fields,
                               std::chrono::nanoseconds limit);
  // Whether there is another trainer.
  [[nodiscard]] bool has_neighbour(const Trainer& trainer) const;
  // Notes what has been done to the scheduling of a stopped trainer.
  static void look_for_interference(Trainer& trainer);
  // Refuses to time `trainer`, whose settings are `settings`, if it has been interfered with or is not as urgent as the others.
  Result<void> check_scheduling(Trainer& trainer, const GroupSettings& settings);
  // Refuses a block after which the settings of `trainer`, or of one that waited meanwhile, are others than before.
  Result<void> check_scheduling_after(Trainer& trainer, const GroupSettings& before);
  // Ends the trainers that were interfered with before now, and all if some are more urgent than others: what is asked next
  // is not to blame.
  void end_changed();
  [[nodiscard]] static GroupSettings settings_of(const Trainer& trainer);
  // The error of what was disturbed (Error::is_disturbance).
  [[nodiscard]] static tl::unexpected<Error> disturbed(std::string what);
  tl::unexpected<Error> end_interfered(Trainer& trainer, const std::string& when);
  void suspend_others(const Trainer* working);
  [[nodiscard]] bool is_on_gpu() const;
  // The fewest steps of a block with which the time of a step is like that in the training.
  [[nodiscard]] std::int64_t least_steps(const Trainer& trainer) const;
  // Makes a trainer on a GPU return unused memory before it waits: LibTorch keeps freed memory, and the other trainer
  // needs it.
  void release_memory(Trainer& trainer);
  // trainer_backend_ends.cpp: end a trainer, if it has not ended by itself, and what the extensions in it have left running.
  // Returns what that was, as an error; empty: nothing. The second one tells it as a warning, once for each key.
  [[nodiscard]] std::string end_trainer(Trainer& trainer);
  void end_and_tell(Trainer& trainer);
  // Ends the trainers whose restart key is not `key`.
  void end_others(const std::string& key);
  // Runs untimed blocks until the rate no longer rises.
  Result<void> warm_up(Trainer& trainer);
  // Brings the trainer to the same state in every trainer: a few steps from the recipe's initial state.
  Result<void> reset(Trainer& trainer);
  Result<Block> measure_block(const Configuration& configuration,
                              const tuner::BlockRequest& request);
  // Waits until the code of extensions that a block began has ended, while the others are still stopped, and refuses a gain
  // that lies in what the block leaves out. `begin` is when it was asked for; `reference` is that of the request. Only a
  // candidate is refused, also where extensions tell it from its reference and one of the two cannot be seen out.
  Result<void> see_out(const Trainer& trainer, const Configuration& configuration,
                       const Configuration* reference, std::chrono::steady_clock::time_point begin,
                       const Block& block);
  // Does `work` for `configuration`. If it fails for lack of memory beside other trainers, ends them and tries again,
  // and remembers that if it helps.
  template <typename Value>
  Result<Value> make_room_for(const Configuration& configuration,
                              const std::function<Result<Value>()>& work);
  [[nodiscard]] std::vector<std::string> keys_beside(const std::string& key) const;
  void remember_misfits(const std::string& key, const std::vector<std::string>& others);
  // The blocks of one configuration in a check.
  struct Arm {
    Json block;
    Json renewed;  // from the state with the initial moments; null: none
  };
  // Compares the checkpoints that the arms ended with.
  Result<tuner::UpdateComparison> compare_arms(Trainer& trainer, const Arm& reference,
                                               const Arm& candidate, const std::string& base,
                                               const std::string& candidate_base);
  // `names` are the fields of the request.
  Result<tuner::UpdateComparison> compare_blocks(Trainer& trainer, const Json& reference,
                                                 const Json& candidate, Json names);
  class Copies;
  struct CheckPlan {
    std::int64_t steps = 0;
    Json place;               // the `place` of the trainer protocol; null: that of the checkpoint
    std::string base;         // the checkpoint that both arms begin at
    bool is_renewed = false;  // both arms make the steps once more, with the initial moments
    std::int64_t test_samples = 0;  // that both arms evaluate before the steps
  };
  // Prepares a check that begins where `trainer` stands: records its place and, if the check begins at its state, makes a
  // copy of that state, in memory and in reached_file().
  Result<void> plan_from(Trainer& trainer, tuner::CheckedSteps which);
  // Writes the present state of `trainer` to `file`, and keeps it as the reached one.
  Result<void> export_state(Trainer& trainer, const std::filesystem::path& file);
  // Reads the state at which the last such check began from reached_file().
  Result<void> take_reached(Trainer& trainer);
  // Makes a copy of that state with the initial moments.
  Result<void> renew(Trainer& trainer);
  // Moves checkpoints, and the reached state where the check has one, to the trainer of `to`. `from` may have ended
  // then.
  Result<Trainer*> move_copies(Trainer& from, const Configuration& to,
                               const std::vector<std::string>& names);
  // Makes the steps of the check from one checkpoint to another.
  Result<Json> check_steps(Trainer& trainer, const Configuration& configuration,
                           const CheckPlan& plan, const std::string& from,
                           const std::string& checkpoint);
  // Sends a request that keeps a checkpoint of that name, until the check ends.
  Result<void> keep_copy(Trainer& trainer, const std::string& request, Json fields,
                         const std::string& name);
  [[nodiscard]] std::filesystem::path copy_file(const std::string& name) const;
  // Those of a check; start() calls it, too, because a process that was killed in a check has left them.
  void drop_copy_files() const;
  // The file stays for compare_rounded() until the next check.
  [[nodiscard]] std::filesystem::path reached_file() const;
  void drop_reached_file() const;
  // From keep_state() to take_state().
  [[nodiscard]] std::filesystem::path carried_file() const;
  void drop_carried_file() const;
  // One-time cost of the first switch to a configuration, if it is notable.
  [[nodiscard]] static std::chrono::nanoseconds switch_time(const Trainer& trainer,
                                                            const Configuration& configuration);
  void drop_dead();
  void take_end(TrainerEnd end) const;
  // The part of the memory limit that the other trainers leave to this one, in bytes.
  [[nodiscard]] std::int64_t memory_left_for(const TrainerClient& client);

  TrainerBackendSpec spec_;
  CancelSource* cancel_;
  ProcessKnobs process_knobs_;
  TrainerReports reports_;
  Json hello_;
  Json facts_;
  CheckPlan check_plan_;                 // of the last compare_updates()
  bool has_trained_ = false;             // nothing is measured any more
  double checkpoint_share_ratio_ = 0.0;  // 0: blocks include no checkpoint
  TrainerList trainers_;                 // most recently used first
  int started_ = 0;                      // chooses the log
  MeasurementLock measurement_lock_;
  std::chrono::nanoseconds warm_up_time_{0};
  OutsideTime outside_time_;
  std::map<std::string, bool> becomes_idle_;  // by key: whether it did after its last block
  std::set<std::pair<std::string, std::string>>
      misfits_;             // keys that do not fit at once, both orders
  std::string failed_key_;  // of the block that failed last, beside another trainer
  // Keys of trainers of which end_and_tell() has told what was left behind.
  std::set<std::string> told_of_rest_;
};

}  // namespace autotuned::daemon
