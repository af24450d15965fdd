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

// A kind of machine, on which results can be compared.
struct EnvironmentRow {
  std::string key;       // Machine::key()
  Json facts;            // Machine::to_json()
  std::string libtorch;  // version of LibTorch
  std::string build;     // build of autotuned; recorded, but not part of the key
};

// A recipe, by its hash.
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

// A run, from the start of its command to the end of its training.
struct RunRow {
  RunId id;
  std::string recipe_hash;
  std::string recipe_name;
  std::string environment_key;
  RunState state = RunState::tuning;
  Json recipe;  // the recipe when the run began
  Configuration starting;
  Configuration best;  // empty until the tuning has ended
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
  // For a recipe: the trainer's answer to `train` (docs/trainer-protocol.md has its keys: counts such as `steps`, `samples`,
  // `resumed_from_step` and `damaged_files`, `duration_ns`, `evaluation_ns`, `final_loss`, `test_*`), with these keys of
  // daemon/session:
  //   budget_ns, is_budget_spent  the time for tuning, and whether it was used up
  //   beyond_budget               trials that ended after it: [{"trial", "by"}], null: not known (kBeyondBudget)
  //   untried                     proposals without a trial: [{"plugin", "change"}]
  //   shortage                    why the budget sufficed for no trial (kShortage)
  //   searched_by                 the run whose complete search stands in for one of this run (kSearchedBy)
  //   tuning_other_work_ratio,    the share of the CPUs' time that other programs used during the tuning and during the
  //   other_work_ratio            training (base/machine/machine_state.hpp)
  //   disturbances                other conditions that disturbed the training: texts
  //   disturbance_subjects        for each of these texts: MachineFinding::subject (kDisturbanceSubjects)
  //   data                        identifies the training data (kTrainedData)
  //   fallbacks                   configurations after a lack of memory or without extensions that failed: [{"configuration",
  //                               "change", "error", "is_memory_of_others", "unix_ns", ...}] (kFallbacks)
  //   model_sha256                of each file of the model, by its name (kModelDigests)
  //   check                       the check after the training: {"passed", "detail", ...}
  // For a script: daemon/report/script_report.hpp lists the keys.
  Json training = Json::object();
  std::string error;  // why the run failed
  std::string output_dir;
  bool is_retuned = false;  // the run searched anew and ignored stored results
  // The plan: seed, length and output folder, as one text. Runs of the same job with the same text train the
  // same model.
  std::string plan;
  bool is_tune_only = false;  // the run only tunes
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

// The plugin of rows with AnswerKind::machine. No plugin can have this name.
inline constexpr const char* kMachineName = "(machine)";

// A question to a plugin with its answer, or another row of that table (AnswerKind).
struct PluginAnswerRow {
  std::string plugin;
  std::string version;
  std::string sha256;       // of its file; with a library for the trainer, a digest of both
  std::string outcome;      // empty after candidates; else why there are none, or the error
  bool is_failure = false;  // the plugin threw, hung, crashed or gave an invalid answer
  std::int64_t asked_unix_ns = 0;
  bool is_answered = false;  // false: the process died before the plugin answered
  AnswerKind kind = AnswerKind::asked;
  std::string subject;  // with AnswerKind::machine: MachineFinding::subject; else empty
};

// The best configuration of a job in an environment.
struct BestRow {
  std::string recipe_hash;
  std::string environment_key;
  RunId run;
  Configuration best;
  Estimate speedup;
  std::int64_t updated_unix_ns = 0;
  // The search tried every proposal and decided on every gain that it saw, and every plugin answered.
  bool is_complete = false;
};

// An environment in which a job has a best configuration.
struct BestEnvironment {
  std::string environment_key;
  std::string libtorch;  // version in that environment
};

// An early end of a trainer, and the trial in which it happened.
struct TrialTrainerEnd {
  int trial = 0;  // 0: outside trials
  TrainerEnd end;
};

// Identifies the runs that the same command continues.
struct RunKey {
  std::string recipe_hash;
  std::string environment_key;
  std::string plan;  // RunRow::plan
  bool is_tune_only = false;
};

// Selects runs. A member that is not set matches every run.
struct RunFilter {
  std::optional<std::string> recipe;       // name, or hash
  std::optional<std::string> environment;  // key
  std::optional<std::string> plugin;       // runs with a trial of this plugin
  std::optional<Verdict> verdict;  // runs with a trial of this verdict (and of `plugin`, if given)
  std::optional<std::int64_t> since_unix_ns;
  std::int64_t limit = 50;  // -1: all
};

// Selects the runs that pruning removes. If both members are set, a run must match both. REQUIRES: one is set.
struct PruneRule {
  std::optional<std::int64_t> before_unix_ns;  // started before this moment
  std::optional<std::int64_t> keep_last;       // not among so many newest runs
};

struct PrunableRun {
  RunId id;
  std::string recipe_name;
  std::int64_t started_unix_ns = 0;
  std::int64_t trials = 0;
};

// The runs that pruning would remove, and the numbers of runs that match the rule but stay.
struct PrunePlan {
  std::vector<PrunableRun> runs;     // oldest first
  std::int64_t kept_for_best = 0;    // runs that match, but a best configuration depends on them
  std::int64_t kept_unfinished = 0;  // runs that match, but are running or can be continued
};

// The result of History::import_from().
struct ImportedRuns {
  std::vector<RunId> runs;        // runs that were missing here, in the order in which they began
  std::vector<RunId> renewed;     // runs that were unfinished here and have continued there
  std::int64_t trials = 0;        // trials of these runs
  std::int64_t best = 0;          // best configurations that were missing here, or older
  std::int64_t known = 0;         // runs without anything new
  std::int64_t kept_at_work = 0;  // runs left out because a process, there or here, works on them
};

// The result of History::backup().
struct BackupCopy {
  std::int64_t size_bytes = 0;
  std::int64_t runs_lost = 0;  // that were in the file that it replaced, and not in the history
};

// The reason of a trial whose session ended while the trial ran.
inline constexpr std::string_view kEndedMeanwhile = "the session ended while this trial ran";

enum class Access { read_write, read_only };

// Whether open_to_write() makes a missing file or answers not_found.
enum class Missing { make, refuse };

// How long a call waits for another program that is writing. SQLite holds its lock for milliseconds; only a
// stopped or stuck program holds it longer.
inline constexpr std::chrono::milliseconds kLockTimeout{10'000};

// A command that reads a history of at most this size looks for damage first, which takes about a quarter of a second.
inline constexpr std::uintmax_t kMaxBytesChecked = std::uintmax_t{32} << 20U;

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
  // (a network file system, whose locks cannot be trusted), invalid (a folder). If the disk has no room for the files that SQLite
  // keeps beside a history in use, read_only reads it all the same, and keeps others out meanwhile.
  [[nodiscard]] static Result<History> open(const std::filesystem::path& file, Access access,
                                            std::chrono::milliseconds lock_timeout = kLockTimeout);
  // Opens a history for a writer: as open() with read_write, but also answers `corrupt` if check_pages() finds damage, because
  // writing to a damaged file could destroy more rows. The file is not changed then, and keeps an earlier version.
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

  // From now on `tell` is called once for each row that a call leaves out because it cannot be read, with one sentence. Every call
  // below may call it. It must not call this object.
  void on_unreadable_row(std::function<void(const std::string&)> tell);

  // --- writing ---
  // Each call is one transaction. ErrorKind::not_found: a row that the new one refers to does not exist; invalid: a row that may only
  // be inserted exists already. Environments, recipes and best configurations replace an earlier row with the same key.
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

  // --- owners of runs (history_owners.cpp) ---
  // Marks `run` as owned by this process while the descriptor is open; children must not inherit it. On a
  // file system without such locks the returned descriptor is closed. ErrorKind::busy if another process owns
  // the run for five seconds.
  [[nodiscard]] Result<Descriptor> claim(const RunId& run) const;
  // Change the verdict `running` to `interrupted`, for the trials of this run or for those of all runs that no process owns. Blocks and
  // checks are kept; a new attempt gets a new number. Both return the number of trials that they changed.
  [[nodiscard]] Result<int> interrupt_running_trials(const RunId& run);
  [[nodiscard]] Result<int> interrupt_abandoned_trials();

  // --- reading ---
  // Every list leaves out rows that this program could not have written, because they were damaged or edited
  // (on_unreadable_row()). Only run(), which is asked for one row, answers `corrupt`.
  //
  // Newest first, in the order in which the runs began, independent of the clock.
  [[nodiscard]] Result<std::vector<RunRow>> runs(const RunFilter& filter) const;
  [[nodiscard]] Result<std::optional<EnvironmentRow>> environment(const std::string& key) const;
  // Finds a run by its full id or an unambiguous prefix; "last" is the newest.
  [[nodiscard]] Result<RunRow> run(const std::string& id_or_prefix) const;
  // Returns the run that the same command continues: the newest run of this job and plan in this environment that has not failed, if
  // its state is tuning, training or cancelled. A run that finished later supersedes an
  // unfinished one. A living process may still own a run in the states tuning and training: take the device
  // lock first. A command that trains continues a run that only tuned if there is no other; a command that
  // only tunes never continues a run that trains.
  [[nodiscard]] Result<std::optional<RunRow>> unfinished_run(const RunKey& key) const;
  // Returns the newest run of the same job in this environment that another command would continue and no process owns.
  [[nodiscard]] Result<std::optional<RunRow>> other_unfinished_run(const RunKey& key) const;
  [[nodiscard]] Result<std::vector<TrialRecord>> trials(const RunId& run) const;  // by number
  // Returns the largest trial number of the run, including unreadable rows; 0 if it has no trials.
  [[nodiscard]] Result<int> last_trial_number(const RunId& run) const;
  // Returns earlier proposals of all jobs in this environment that were accepted, rejected or failed, newest last. If there are more
  // than `limit`, trials of this job are kept first, then newer ones. Leaves out the run `except`.
  [[nodiscard]] Result<std::vector<TrialRecord>> earlier_trials(const std::string& environment_key,
                                                                const std::string& recipe_hash,
                                                                std::int64_t limit,
                                                                const RunId& except = {}) const;
  // The same, only for this job.
  [[nodiscard]] Result<std::vector<TrialRecord>> job_trials(const std::string& environment_key,
                                                            const std::string& recipe_hash,
                                                            std::int64_t limit,
                                                            const RunId& except = {}) const;
  // Returns the blocks in the order in which they ran.
  [[nodiscard]] Result<std::vector<TrialBlock>> blocks(const TrialId& trial) const;
  [[nodiscard]] Result<std::vector<CheckRecord>> checks(const TrialId& trial) const;
  // Returns the ends in the order in which they happened.
  [[nodiscard]] Result<std::vector<TrialTrainerEnd>> trainer_ends(const RunId& run) const;
  [[nodiscard]] Result<std::vector<PluginAnswerRow>> plugin_answers(const RunId& run) const;
  // Returns profiles, oldest first: {"configuration", "metrics", "spans", "operators", "taken_unix_ns", "findings"}. "findings" is a
  // list of FindingRecord::to_json(), the most severe first, and with equal severity in the order of the rules.
  [[nodiscard]] Result<std::vector<Json>> profiles(const RunId& run) const;
  [[nodiscard]] Result<std::optional<BestRow>> best(const std::string& recipe_hash,
                                                    const std::string& environment_key) const;
  // Returns the environments with a stored best configuration of this job, readable or not. The environment with the newest run of the
  // job comes first.
  [[nodiscard]] Result<std::vector<BestEnvironment>> environments_with_best(
      const std::string& recipe_hash) const;
  // Reads the whole file.
  [[nodiscard]] Result<Integrity> check_integrity() const;
  // ErrorKind::corrupt with the first damage that `PRAGMA quick_check` finds, also on pages that no other call visits. Reads the whole
  // file, 100 MB in about a second. Does nothing for files larger than `kMaxBytesChecked`.
  [[nodiscard]] Result<void> check_pages() const;

  // --- upkeep (history_upkeep.cpp, history_import.cpp) ---
  // Writes a copy, which is consistent while others write, and checks it before it gets its name. `target` appears complete or not at
  // all, with mode 0600. ErrorKind::invalid if `target` is this history, a side file of a database (check_no_side_file()) or no
  // regular file, or if it exists and not `may_replace`, or is no history, or has runs that this one lacks and not `may_lose_runs`.
  [[nodiscard]] Result<BackupCopy> backup(const std::filesystem::path& target, bool may_replace,
                                          bool may_lose_runs = false) const;
  // Returns the runs that the rule would remove. It never removes a run on which a best configuration depends (the run that it names,
  // and the run that found it), a run that a process owns, or a run that the same command would continue. ErrorKind::unsupported: a
  // history of a version before 10 that is only read.
  [[nodiscard]] Result<PrunePlan> plan_pruning(const PruneRule& rule) const;
  // Opens a history to import its runs into another one: open() with read_only.
  [[nodiscard]] static Result<History> open_to_import(const std::filesystem::path& file);
  // Copies from `other`: runs that are missing here, with all that belongs to them; whole runs that are unfinished here and have
  // continued there, in place of ours; and best configurations that are newer. Everything else stays. Works in one transaction, from
  // a snapshot of `other`, whose file is not changed and may have an earlier version. ErrorKind::corrupt: `other` has damaged pages,
  // or rows that refer to missing ones; invalid: `other` is this history.
  [[nodiscard]] Result<ImportedRuns> import_from(const History& other);
  // The tables that import_from() copies.
  [[nodiscard]] static std::vector<std::string> imported_tables();
  // Removes a run with all its trials, blocks, checks, profiles, findings and answers, in one transaction. Returns false and changes
  // nothing if the run no longer exists, is owned by a process, or has become the best of its job.
  [[nodiscard]] Result<bool> remove_run(const RunId& run);
  // Gives the space of removed rows back to the file system. Needs free space of the size of the file.
  // ErrorKind::busy if another process uses the file.
  [[nodiscard]] Result<void> compact();
  [[nodiscard]] const std::filesystem::path& path() const;
  // If the file is of an earlier version of the program and only read: what is missing, and what brings it up to date, as a
  // sentence. Else empty.
  [[nodiscard]] std::string outdated_text() const;
  // Whether the file was deleted or moved since it was opened. Calls that write answer ErrorKind::io then.
  [[nodiscard]] bool is_gone() const;

 private:
  struct Connection;
  explicit History(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace autotuned::storage
