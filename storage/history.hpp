// SPDX-License-Identifier: Apache-2.0
// The history: every run, trial, block and decision, in SQLite. Only storage/ uses SQLite.
//
// WAL, synchronous=FULL, foreign keys. Each call is one transaction, and what it returned `ok` for survives a
// power cut. Any number of processes may read and write; readers never block the writer. Not thread-safe: one
// object for each thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/configuration.hpp"
#include "base/descriptor.hpp"
#include "base/finding.hpp"
#include "base/identifier.hpp"
#include "base/json.hpp"
#include "base/process/trainer_end.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"

namespace autotuned::storage {

struct EnvironmentRow {
  std::string key;       // Machine::key()
  Json facts;            // Machine::to_json()
  std::string libtorch;  // version
  std::string build;     // build of autotuned; recorded, but not part of the key
};

struct RecipeRow {
  std::string hash;  // Recipe::hash()
  std::string name;
  std::string path;
  Json content;  // Recipe::to_json()
};

// Stored names: never change one.
enum class RunState {
  tuning,    // trials are running, or the process died during them
  training,  // tuned; the training is running, or the process died during it
  finished,
  failed,
  cancelled,  // stopped by the user; the same command continues it
};
[[nodiscard]] std::string_view to_string(RunState state);
[[nodiscard]] std::optional<RunState> run_state_from(std::string_view name);

struct RunRow {
  RunId id;
  std::string recipe_hash;
  std::string recipe_name;
  std::string environment_key;
  RunState state = RunState::tuning;
  Json recipe;  // as it was when the run began
  Configuration starting;
  Configuration best;  // empty until tuning ended
  double baseline_samples_per_second = 0.0;
  double best_samples_per_second = 0.0;
  Estimate speedup;
  double ceiling_samples_per_second = 0.0;
  std::string ceiling_bound_by;
  // [{"rung", "samples_per_second", "reached_ratio"}], the lowest first; empty: not measured.
  Json ceiling_ladder = Json::array();
  std::int64_t started_unix_ns = 0;
  std::int64_t ended_unix_ns = 0;  // 0: it has not ended
  std::int64_t tuning_duration_ns = 0;
  // Of a recipe: the trainer's answer to `train` (docs/trainer-protocol.md has its keys: counts such as `steps`, `samples`,
  // `resumed_from_step` and `damaged_files`, `duration_ns`, `evaluation_ns`, `final_loss`, `test_*`), and with it, from
  // daemon/session:
  //   budget_ns, is_budget_spent  the time for tuning, and whether it was used up
  //   untried                     proposals without a trial: [{"plugin", "change"}]
  //   shortage                    why the budget sufficed for no trial (kShortage)
  //   tuning_other_work_ratio,    the share of the CPUs' time that went to others during the tuning and during the
  //   other_work_ratio            training (base/machine/machine_state.hpp)
  //   disturbances                what else disturbed the training: texts
  //   disturbance_subjects        of each of these texts: MachineFinding::subject (kDisturbanceSubjects)
  //   data                        what identifies the data that it was trained on (kTrainedData)
  //   fallbacks                   configurations after a lack of memory: [{"configuration", "change", "error", "is_memory_of_others",
  //                               "unix_ns"}] (kFallbacks)
  //   model_sha256                of each file of the model, by its name (kModelDigests)
  //   check                       the check after the training: {"passed", "detail", ...}
  // Of a script: daemon/report/script_report.hpp lists the keys.
  Json training = Json::object();
  std::string error;  // why it failed
  std::string output_dir;
  bool is_retuned = false;  // begun to search anew, whatever was known
  // The plan: seed, length and output folder, as one text. Runs of the same job with the same text train the
  // same model.
  std::string plan;
  bool is_tune_only = false;  // nothing is to be trained
  // Set by History::run() and History::runs(), not stored: the state is tuning or training, but the process
  // of the run has ended.
  bool is_interrupted = false;
};

// What a row of PluginAnswerRow is. Stored names: never change one.
enum class AnswerKind {
  asked,        // a plugin was asked
  refused,      // a plugin, or a folder of plugins, could not be loaded
  unsupported,  // a plugin that the job names does not run on this machine
  machine,      // what was found on the machine (MachineFinding), which needs no question
};
[[nodiscard]] std::string_view to_string(AnswerKind kind);
[[nodiscard]] std::optional<AnswerKind> answer_kind_from(std::string_view name);

// The plugin of rows with AnswerKind::machine. No plugin can be called so.
inline constexpr const char* kMachineName = "(machine)";

struct PluginAnswerRow {
  std::string plugin;
  std::string version;
  std::string sha256;
  std::string
      outcome;  // empty if there were candidates, else why there were none or what went wrong
  bool is_failure = false;  // it threw, hung, crashed or gave an invalid answer
  std::int64_t asked_unix_ns = 0;
  bool is_answered = false;  // false: the process died before the plugin answered
  AnswerKind kind = AnswerKind::asked;
  std::string subject;  // with AnswerKind::machine: MachineFinding::subject; else empty
};

struct BestRow {
  std::string recipe_hash;
  std::string environment_key;
  RunId run;
  Configuration best;
  Estimate speedup;
  std::int64_t updated_unix_ns = 0;
  // The search tried every proposal, decided on every gain that it saw, and every plugin answered.
  bool is_complete = false;
};

struct BestPlace {
  std::string environment_key;
  std::string libtorch;  // of that environment
};

struct TrialTrainerEnd {
  int trial = 0;  // 0: outside trials
  TrainerEnd end;
};

// What identifies a run of the same command.
struct RunKey {
  std::string recipe_hash;
  std::string environment_key;
  std::string plan;  // RunRow::plan
  bool is_tune_only = false;
};

struct RunFilter {
  std::optional<std::string> recipe;       // name, or hash
  std::optional<std::string> environment;  // key
  std::optional<std::string> plugin;       // runs with a trial of this plugin
  std::optional<Verdict> verdict;  // runs with a trial of this verdict (and of `plugin`, if given)
  std::optional<std::int64_t> since_unix_ns;
  std::int64_t limit = 50;  // -1: all
};

// Which runs pruning removes. REQUIRES: at least one member is set. With both, a run must match both.
struct PruneRule {
  std::optional<std::int64_t> before_unix_ns;  // started before this moment
  std::optional<std::int64_t> keep_last;       // not among this many newest runs
};

struct PrunableRun {
  RunId id;
  std::string recipe_name;
  std::int64_t started_unix_ns = 0;
  std::int64_t trials = 0;
};

struct PrunePlan {
  std::vector<PrunableRun> runs;     // oldest first
  std::int64_t kept_for_best = 0;    // match the rule, but a best configuration depends on them
  std::int64_t kept_unfinished = 0;  // match the rule, but are running or can be continued
};

// What History::import_from() has done.
struct ImportedRuns {
  std::vector<RunId> runs;        // that were not here, in the order in which they were begun
  std::vector<RunId> renewed;     // that were here unfinished and have gone on there
  std::int64_t trials = 0;        // of these runs
  std::int64_t best = 0;          // best configurations that were missing here, or older
  std::int64_t known = 0;         // runs of which nothing is new
  std::int64_t kept_at_work = 0;  // runs that a process is at work on, there or here: left out
};

// The reason of a trial whose session ended while the trial ran.
inline constexpr std::string_view kEndedMeanwhile = "the session ended while this trial ran";

enum class Access { read_write, read_only };

// What open_to_write() does without a file: makes it, or answers not_found.
enum class Missing { make, refuse };

// How long a call waits for another program that is writing. SQLite holds its lock for milliseconds; only a
// stopped or stuck program holds it longer.
inline constexpr std::chrono::milliseconds kLockTimeout{10'000};

// Up to this size a command that reads a history looks for damage first: about a quarter of a second.
inline constexpr std::uintmax_t kMostBytesChecked = std::uintmax_t{32} << 20U;

// What SQLite's checks of a whole history find.
struct Integrity {
  std::string damage;  // of pages, the first lines; empty: none
  // Rows that lack another that they refer to, as an edit with other tools can leave them, each pair of tables once: "a row of
  // trials refers to a missing row of runs". Not looked for in a file with damaged pages.
  std::vector<std::string> missing_references;

  [[nodiscard]] std::string text() const;  // "ok", or a line for each finding
};

// Called repeatedly while a call waits for another program that writes, with the time waited so far; false
// ends the wait.
using LockPatience = std::function<bool(std::chrono::milliseconds waited)>;

class History {
 public:
  // Opens a history. read_write creates a missing file and its folder (0700); read_only answers not_found.
  // Errors name the file and what to do: busy (locked by another program for longer than `lock_timeout`),
  // permission, corrupt (the file is not changed), newer_version (the error names it), disk_full, unsupported
  // (a network file system, whose locks cannot be trusted), invalid (a folder).
  [[nodiscard]] static Result<History> open(const std::filesystem::path& file, Access access,
                                            std::chrono::milliseconds lock_timeout = kLockTimeout);
  // For whoever writes: open() with read_write, but `corrupt` also where check_pages() finds damage, because
  // what is written there could cost more rows. The file is not changed then, and a history of an earlier
  // version stays one.
  [[nodiscard]] static Result<History> open_to_write(
      const std::filesystem::path& file, Missing missing = Missing::make,
      std::chrono::milliseconds lock_timeout = kLockTimeout);
  ~History();
  History(History&&) noexcept;
  History& operator=(History&&) noexcept;

  // $AUTOTUNED_HISTORY, else $XDG_STATE_HOME/autotuned/history.db, else below ~/.local/state.
  [[nodiscard]] static std::filesystem::path default_path();

  // From now on calls wait for a lock as long as `patience` returns true, instead of the time given to
  // open().
  [[nodiscard]] Result<void> set_patience(LockPatience patience);

  // From now on `tell` gets one sentence for each row that a call leaves out because it cannot be read, once
  // for each row. Any of the calls below may call it; it must not call this object.
  void on_unreadable_row(std::function<void(const std::string&)> tell);

  // --- writing ---
  // Each call is one transaction. ErrorKind::not_found: a row that it refers to does not exist; invalid: a
  // row that may only be inserted exists already. Environments, recipes and best configurations replace an
  // earlier row with the same key.
  [[nodiscard]] Result<void> put_environment(const EnvironmentRow& environment);
  [[nodiscard]] Result<void> put_recipe(const RecipeRow& recipe);
  [[nodiscard]] Result<void> put_run(const RunRow& run);     // inserts
  [[nodiscard]] Result<void> update_run(const RunRow& run);  // every field except keys and ceiling
  [[nodiscard]] Result<void> put_ceiling(const RunId& run, double samples_per_second,
                                         const std::string& bound_by, const Json& ladder);
  // Inserts or replaces by (run, number); blocks and checks stay.
  [[nodiscard]] Result<void> put_trial(const RunId& run, const TrialRecord& trial);
  [[nodiscard]] Result<void> put_block(const TrialId& trial, const TrialBlock& block);
  [[nodiscard]] Result<void> put_check(const TrialId& trial, const CheckRecord& check);
  // A trial number of 0 means outside of trials.
  [[nodiscard]] Result<void> put_trainer_end(const TrialId& trial, const TrainerEnd& end);
  [[nodiscard]] Result<void> put_profile(const RunId& run, const Configuration& configuration,
                                         const Json& metrics, const Json& spans,
                                         const Json& operators, std::int64_t taken_unix_ns,
                                         std::span<const FindingRecord> findings = {});
  [[nodiscard]] Result<void> put_plugin_asked(const RunId& run, const PluginAnswerRow& question);
  // Stores the answer to the last question to this plugin that has none.
  [[nodiscard]] Result<void> put_plugin_answered(const RunId& run, const std::string& plugin,
                                                 const std::string& outcome, bool is_failure);
  [[nodiscard]] Result<void> put_best(const BestRow& best);
  [[nodiscard]] Result<bool> forget_best(const std::string& recipe_hash,
                                         const std::string& environment_key);

  // --- which process works on which run (history_owners.cpp) ---
  // Marks `run` as owned by this process while the descriptor is open; children must not inherit it. On a
  // file system without such locks the returned descriptor is closed. ErrorKind::busy if another process owns
  // the run for five seconds.
  [[nodiscard]] Result<Descriptor> claim(const RunId& run) const;
  // Trials that are still `running` become `interrupted`: those of this run, or those of all runs that no
  // process owns. Their blocks and checks are kept; a new attempt gets a new number. Returns how many trials
  // changed.
  [[nodiscard]] Result<int> interrupt_running_trials(const RunId& run);
  [[nodiscard]] Result<int> interrupt_abandoned_trials();

  // --- reading ---
  // A row that this program could not have written, because it was damaged or edited, is left out of every
  // answer (on_unreadable_row()). Only run(), which was asked for that row, answers `corrupt`.
  //
  // Newest first, in the order in which the runs began, independent of the clock.
  [[nodiscard]] Result<std::vector<RunRow>> runs(const RunFilter& filter) const;
  [[nodiscard]] Result<std::optional<EnvironmentRow>> environment(const std::string& key) const;
  // Finds a run by its full id or an unambiguous prefix; "last" is the newest.
  [[nodiscard]] Result<RunRow> run(const std::string& id_or_prefix) const;
  // The run that the same command continues: the newest of this job and plan in this environment, failed ones
  // left out, if its state is tuning, training or cancelled. A run that finished later supersedes an
  // unfinished one. A living process may still own a run in the states tuning and training: take the device
  // lock first. A command that trains continues a run that only tuned if there is no other; a command that
  // only tunes never continues a run that trains.
  [[nodiscard]] Result<std::optional<RunRow>> unfinished_run(const RunKey& key) const;
  // The newest run of the same job in this environment that another command would continue and that no
  // process owns.
  [[nodiscard]] Result<std::optional<RunRow>> other_unfinished_run(const RunKey& key) const;
  [[nodiscard]] Result<std::vector<TrialRecord>> trials(const RunId& run) const;  // by number
  // The largest trial number of the run, unreadable rows included; 0: it has no trials.
  [[nodiscard]] Result<int> last_trial_number(const RunId& run) const;
  // Earlier proposals that were accepted, rejected or failed in this environment, of any job, newest last. If
  // there are more than `limit`, trials of this job are kept before others, and newer before older. Leaves
  // out the run `except`.
  [[nodiscard]] Result<std::vector<TrialRecord>> earlier_trials(const std::string& environment_key,
                                                                const std::string& recipe_hash,
                                                                std::int64_t limit,
                                                                const RunId& except = {}) const;
  // The same, only for this job.
  [[nodiscard]] Result<std::vector<TrialRecord>> job_trials(const std::string& environment_key,
                                                            const std::string& recipe_hash,
                                                            std::int64_t limit,
                                                            const RunId& except = {}) const;
  // In the order in which they ran.
  [[nodiscard]] Result<std::vector<TrialBlock>> blocks(const TrialId& trial) const;
  [[nodiscard]] Result<std::vector<CheckRecord>> checks(const TrialId& trial) const;
  // In the order in which they happened.
  [[nodiscard]] Result<std::vector<TrialTrainerEnd>> trainer_ends(const RunId& run) const;
  [[nodiscard]] Result<std::vector<PluginAnswerRow>> plugin_answers(const RunId& run) const;
  // Oldest first: {"configuration", "metrics", "spans", "operators", "taken_unix_ns", "findings"}; "findings"
  // is a list of FindingRecord::to_json(), the most severe first, of one severity in the order of the rules.
  [[nodiscard]] Result<std::vector<Json>> profiles(const RunId& run) const;
  [[nodiscard]] Result<std::optional<BestRow>> best(const std::string& recipe_hash,
                                                    const std::string& environment_key) const;
  // The environments with a stored best configuration of this job, readable or not: the environment with the
  // newest run of the job first.
  [[nodiscard]] Result<std::vector<BestPlace>> best_places(const std::string& recipe_hash) const;
  // Reads the whole file.
  [[nodiscard]] Result<Integrity> check_integrity() const;
  // `corrupt` with the first damage that `PRAGMA quick_check` finds: on pages that no other call here may visit. Reads the
  // whole file, 100 MB in about a second; above `kMostBytesChecked` it looks at nothing.
  [[nodiscard]] Result<void> check_pages() const;

  // --- upkeep (history_upkeep.cpp, history_import.cpp) ---
  // Writes a copy, consistent while others write, and checks it before it gets its name: `target` appears
  // complete or not at all, with mode 0600. Returns its size in bytes. ErrorKind::invalid if `target` is this
  // history, no regular file, or exists and not `may_replace`.
  [[nodiscard]] Result<std::int64_t> backup(const std::filesystem::path& target,
                                            bool may_replace) const;
  // What a rule would remove. Never a run on which a best configuration depends (the run that it names, and
  // the run that found it), one that a process owns, or one that the same command would continue.
  [[nodiscard]] Result<PrunePlan> plan_pruning(const PruneRule& rule) const;
  // open() with read_only of a history whose runs another one is to take over.
  [[nodiscard]] static Result<History> open_to_import(const std::filesystem::path& file);
  // Takes over what `other` has and this history has not: runs with all that belongs to them, whole runs in the place of
  // those that are here unfinished and have gone on there, and best configurations that are newer. The rest stays as it
  // is. All in one transaction, from a copy of one moment of `other`, whose file
  // is not changed and may be of an earlier version. ErrorKind::corrupt: damaged pages, or rows that lack another;
  // invalid: it is this history.
  [[nodiscard]] Result<ImportedRuns> import_from(const History& other);
  // The tables that import_from() copies.
  [[nodiscard]] static std::vector<std::string> imported_tables();
  // Removes a run with all its trials, blocks, checks, profiles, findings and answers, in one transaction.
  // Returns false and changes nothing if the run does not exist any more, is owned by a process, or has
  // become the best of its job.
  [[nodiscard]] Result<bool> remove_run(const RunId& run);
  // Gives the space of removed rows back to the file system. Needs free space of the size of the file.
  // ErrorKind::busy if another process uses the file.
  [[nodiscard]] Result<void> compact();
  [[nodiscard]] const std::filesystem::path& path() const;
  // Whether the file was deleted or moved since it was opened. Calls that write answer ErrorKind::io then.
  [[nodiscard]] bool is_gone() const;

 private:
  struct Connection;
  explicit History(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace autotuned::storage
