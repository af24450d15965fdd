// SPDX-License-Identifier: Apache-2.0
// The history: every run, trial, block and decision, in SQLite. The only folder that knows SQLite.
//
// WAL, synchronous=FULL, foreign keys; one transaction per fact: what a call has returned `ok` for
// survives a power cut. One writer at a time per fact, any number of readers; readers never block the
// writer. Not thread-safe: one object per thread.
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
  std::string build;     // of autotuned; recorded, not part of the key
};

struct RecipeRow {
  std::string hash;  // Recipe::hash()
  std::string name;
  std::string path;
  Json content;  // Recipe::to_json()
};

// Stored names: never change one.
enum class RunState {
  tuning,    // trials are going on, or the process died while they were
  training,  // tuned; training is going on, or the process died while it was
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
  Json recipe;  // as it was
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
  std::int64_t ended_unix_ns = 0;  // 0: has not ended
  std::int64_t tuning_duration_ns = 0;
  // {"steps", "samples", "final_loss", "test_accuracy", "duration_ns"}
  Json training = Json::object();
  std::string error;  // why it failed
  std::string output_dir;
  bool is_retuned = false;  // begun to search anew, whatever was known
  // What is trained beside the job: seed, length and output folder, as one text. Runs with the same text train the same.
  std::string plan;
  bool is_tune_only = false;  // nothing is to be trained
  // Found out by History::run() and History::runs(), not stored: tuning or training, and its process has ended.
  bool is_interrupted = false;
};

struct PluginAnswerRow {
  std::string plugin;
  std::string version;
  std::string sha256;
  std::string outcome;      // empty for candidates, else why there was none or what went wrong
  bool is_failure = false;  // threw, hung, crashed, nonsense
  std::int64_t asked_unix_ns = 0;
  bool is_answered = false;  // false: asked, and the process died before an answer
};

struct BestRow {
  std::string recipe_hash;
  std::string environment_key;
  RunId run;
  Configuration best;
  Estimate speedup;
  std::int64_t updated_unix_ns = 0;
  bool is_complete = false;  // the search tried every proposal that was made
};

struct BestPlace {
  std::string environment_key;
  std::string libtorch;  // of that environment
};

struct TrialTrainerEnd {
  int trial = 0;  // 0: outside trials
  TrainerEnd end;
};

// What the same command is known by.
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
  std::optional<Verdict> verdict;  // runs with a trial that ended so (of `plugin`, if given)
  std::optional<std::int64_t> since_unix_ns;
  std::int64_t limit = 50;  // -1: all
};

// Which runs may go. At least one must be set; with both, a run goes only when both allow it.
struct PruneRule {
  std::optional<std::int64_t> before_unix_ns;  // started before this moment
  std::optional<std::int64_t> keep_last;       // not among the newest so many
};

struct PrunableRun {
  RunId id;
  std::string recipe_name;
  std::int64_t started_unix_ns = 0;
  std::int64_t trials = 0;
};

struct PrunePlan {
  std::vector<PrunableRun> runs;     // oldest first
  std::int64_t kept_for_best = 0;    // covered by the rule, but a best configuration rests on them
  std::int64_t kept_unfinished = 0;  // covered by the rule, but at work or to be continued
};

// Of a trial whose session ended while it ran.
inline constexpr std::string_view kEndedMeanwhile = "the session ended while this trial ran";

enum class Access { read_write, read_only };

// How long a call waits for another program that is writing. SQLite itself holds a lock for
// milliseconds; only a stopped or stuck program holds it longer.
inline constexpr std::chrono::milliseconds kLockTimeout{10'000};

// Up to this size a command that reads a history looks for damage first: about a quarter of a second.
inline constexpr std::uintmax_t kMostBytesChecked = std::uintmax_t{32} << 20U;

// Asked again and again while a call waits for another program that writes, with the time for which it has waited; false
// ends the waiting.
using LockPatience = std::function<bool(std::chrono::milliseconds waited)>;

class History {
 public:
  // Creates the file and its folder (0700) for read_write when there is none; read_only answers
  // not_found then. Errors name the file and what to do: busy (locked by another program for longer
  // than `lock_timeout`), permission, corrupt (nothing is written to it), newer_version (says which),
  // disk_full, unsupported (network file systems, where locks cannot be trusted), invalid (a folder).
  [[nodiscard]] static Result<History> open(const std::filesystem::path& file, Access access,
                                            std::chrono::milliseconds lock_timeout = kLockTimeout);
  ~History();
  History(History&&) noexcept;
  History& operator=(History&&) noexcept;

  // $AUTOTUNED_HISTORY, else $XDG_STATE_HOME/autotuned/history.db, else below ~/.local/state.
  [[nodiscard]] static std::filesystem::path default_path();

  // From here on calls wait for a lock as long as `patience` says, and not for the time given to open().
  [[nodiscard]] Result<void> set_patience(LockPatience patience);

  // From here on `tell` gets a sentence for each row that the calls below leave out because it cannot be read, once for
  // each row. It may run in any of them, and must not call this object.
  void on_unreadable_row(std::function<void(const std::string&)> tell);

  // --- writing ---
  // Each call is one transaction. not_found: a row that it refers to does not exist; invalid: a row
  // that is only inserted exists already.
  // Environments, recipes and best configurations replace an earlier row with the same key.
  [[nodiscard]] Result<void> put_environment(const EnvironmentRow& environment);
  [[nodiscard]] Result<void> put_recipe(const RecipeRow& recipe);
  [[nodiscard]] Result<void> put_run(const RunRow& run);     // inserts
  [[nodiscard]] Result<void> update_run(const RunRow& run);  // every field but keys and ceiling
  [[nodiscard]] Result<void> put_ceiling(const RunId& run, double samples_per_second,
                                         const std::string& bound_by, const Json& ladder);
  // Inserts or replaces by (run, number); blocks and checks stay.
  [[nodiscard]] Result<void> put_trial(const RunId& run, const TrialRecord& trial);
  [[nodiscard]] Result<void> put_block(const TrialId& trial, const TrialBlock& block);
  [[nodiscard]] Result<void> put_check(const TrialId& trial, const CheckRecord& check);
  // Number 0: outside trials.
  [[nodiscard]] Result<void> put_trainer_end(const TrialId& trial, const TrainerEnd& end);
  [[nodiscard]] Result<void> put_profile(const RunId& run, const Configuration& configuration,
                                         const Json& metrics, const Json& spans,
                                         const Json& operators, std::int64_t taken_unix_ns,
                                         std::span<const FindingRecord> findings = {});
  [[nodiscard]] Result<void> put_plugin_asked(const RunId& run, const PluginAnswerRow& question);
  // Answers the last open question to that plugin.
  [[nodiscard]] Result<void> put_plugin_answered(const RunId& run, const std::string& plugin,
                                                 const std::string& outcome, bool is_failure);
  [[nodiscard]] Result<void> put_best(const BestRow& best);
  [[nodiscard]] Result<bool> forget_best(const std::string& recipe_hash,
                                         const std::string& environment_key);

  // --- who is at work (history_owners.cpp) ---
  // Says that this process is at work on `run`, as long as the descriptor is open; children must not inherit it. The
  // file system may have no such locks: then the descriptor is closed from the beginning. ErrorKind::busy when another
  // process is at work on the run for five seconds.
  [[nodiscard]] Result<Descriptor> claim(const RunId& run) const;
  // Trials that are still `running` become `interrupted`: those of this run, or of all runs on which nobody is at work.
  // Their blocks and checks are kept; a new attempt has a number of its own. Returns how many.
  [[nodiscard]] Result<int> interrupt_running_trials(const RunId& run);
  [[nodiscard]] Result<int> interrupt_abandoned_trials();

  // --- reading ---
  // A row that is not what this program writes, because it was damaged or edited, is left out of every answer
  // (on_unreadable_row()). Only run(), which was asked for that row, answers `corrupt`.
  //
  // Newest first, in the order in which they were begun, whatever the clock said.
  [[nodiscard]] Result<std::vector<RunRow>> runs(const RunFilter& filter) const;
  [[nodiscard]] Result<std::optional<EnvironmentRow>> environment(const std::string& key) const;
  // By full id or by an unambiguous prefix; "last" is the newest.
  [[nodiscard]] Result<RunRow> run(const std::string& id_or_prefix) const;
  // The run that the same command continues: the newest of this job and plan here, failed ones left out, when
  // it is tuning, training or cancelled. A run that finished later supersedes an unfinished one.
  // `tuning` and `training` may also mean that a living process is at it: take the device lock first.
  // A command that trains goes on with one that only tuned where there is no other; never the other way round.
  [[nodiscard]] Result<std::optional<RunRow>> unfinished_run(const RunKey& key) const;
  // The newest run of the same job here that another command continues, and on which nobody is at work.
  [[nodiscard]] Result<std::optional<RunRow>> other_unfinished_run(const RunKey& key) const;
  [[nodiscard]] Result<std::vector<TrialRecord>> trials(const RunId& run) const;  // by number
  // The largest number of its trials, those that cannot be read included; 0: it has none.
  [[nodiscard]] Result<int> last_trial_number(const RunId& run) const;
  // Earlier proposals that were accepted, rejected or failed in this environment, of any job, newest
  // last. Over `limit`, those of this job are kept before others, newer before older. The run
  // `except` is left out.
  [[nodiscard]] Result<std::vector<TrialRecord>> earlier_trials(const std::string& environment_key,
                                                                const std::string& recipe_hash,
                                                                std::int64_t limit,
                                                                const RunId& except = {}) const;
  // Those of this job alone.
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
  // Oldest first; {"configuration", "metrics", "spans", "operators", "taken_unix_ns", "findings"}, the last a list of
  // FindingRecord::to_json() as they were given: the most severe first, of one severity in the order of the rules.
  [[nodiscard]] Result<std::vector<Json>> profiles(const RunId& run) const;
  [[nodiscard]] Result<std::optional<BestRow>> best(const std::string& recipe_hash,
                                                    const std::string& environment_key) const;
  // Where a best configuration of this job is stored, whether it can be read or not: the environment with the newest
  // run of the job first.
  [[nodiscard]] Result<std::vector<BestPlace>> best_places(const std::string& recipe_hash) const;
  // "ok", or the first lines of what SQLite's integrity check found. Reads the whole file.
  [[nodiscard]] Result<std::string> check_integrity() const;
  // `corrupt` with the first damage that `PRAGMA quick_check` finds: on pages that no other call here may visit. Reads the
  // whole file, 100 MB in about a second; above `kMostBytesChecked` it looks at nothing.
  [[nodiscard]] Result<void> check_pages() const;

  // --- upkeep (history_upkeep.cpp) ---
  // Writes a copy, consistent while others write, and checks it before it gets its name: `target`
  // appears whole or not at all, with mode 0600. Returns its size in bytes. ErrorKind::invalid when
  // `target` exists and not `may_replace`, or is this history.
  [[nodiscard]] Result<std::int64_t> backup(const std::filesystem::path& target,
                                            bool may_replace) const;
  // What a rule would remove. Never a run on which a best configuration rests (the one that it names,
  // and the one that found it), one that somebody is at work on, or one that the same command would
  // continue.
  [[nodiscard]] Result<PrunePlan> plan_pruning(const PruneRule& rule) const;
  // Removes a run with all its trials, blocks, checks, profiles, findings and answers, in one transaction.
  // False, and nothing happens, when it is gone, at work or the best of its job by now.
  [[nodiscard]] Result<bool> remove_run(const RunId& run);
  // Gives the space of removed rows back to the file system. Needs as much free space as the file has
  // bytes, and that nobody else uses the file: else ErrorKind::busy.
  [[nodiscard]] Result<void> compact();
  [[nodiscard]] const std::filesystem::path& path() const;
  // Whether the file was deleted or moved since it was opened. Writing calls answer `io` then.
  [[nodiscard]] bool is_gone() const;

 private:
  struct Connection;
  explicit History(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace autotuned::storage
