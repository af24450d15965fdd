// SPDX-License-Identifier: Apache-2.0
// The story as a person reads it.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/text.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/rank_report.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/story.hpp"
#include "daemon/report/story_findings.hpp"
#include "daemon/report/training_course.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_end.hpp"
#include "daemon/report/tuning_time.hpp"
#include "tuner/ceiling.hpp"

namespace autotuned::daemon {

namespace {

using std::chrono::nanoseconds;

constexpr double kWorthNaming = 0.01;  // of a step
// Where the tuner expects nothing more of loading and transfer, nothing more is told to be gained.
constexpr double kMinReachedRatio = 1.0 / tuner::kAtCeiling;
constexpr std::size_t kOperatorsNamed = 3;
constexpr std::ptrdiff_t kMaxQuietTold = 3;  // plugins
// Of a proposal that was not disturbed.
constexpr std::string_view kUndecidedMeaning =
    "its time ended before this was decided, so the change may be faster";

std::string type_of(const Json& typed) {
  return get_string(typed, "type").value_or("?");
}

// "a, b and c".
std::string listed(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

std::string opening(const RunRecord& record) {
  const storage::RunRow& run = record.run;
  std::string text = fmt::format("Run {} of {}, started {}: {}.\n", run.id.text, run.recipe_name,
                                 time_text(run.started_unix_ns), state_text(run));
  if (const std::string extended = extended_run(run); !extended.empty()) {
    text += "It continues the training of run " + extended +
            ". Configuration and rates come from that run, except the rate of this training.\n";
  }
  if (!run.error.empty()) text += "It ended with an error: " + run.error + ".\n";
  if (const std::string stopped = stopped_text(run); !stopped.empty()) {
    text += "Its training was stopped " + stopped + ".\n";
  }
  if (const std::string note = stand_in_note(run.recipe); !note.empty()) {
    text += "Note: " + note + ".\n";
  }
  return text;
}

std::string job(const RunRecord& record) {
  const Json& recipe = record.run.recipe;
  std::string text =
      is_script(recipe)
          ? fmt::format("It is {}.\n", script_text(recipe))
          : fmt::format(
                "It trains the model {} on data of the type {} with {} and a batch size of {}.\n",
                type_of(member(recipe, "model")), type_of(member(recipe, "data")),
                type_of(member(recipe, "optimizer")),
                get_integer(member(recipe, "train"), "batch_size").value_or(0));
  if (const std::string ranks = ranks_text(recipe, record.run.starting); !ranks.empty()) {
    text += "It starts with " + ranks + ".\n";
  }
  if (!record.environment) return text;
  const Json& facts = record.environment->facts;
  text += fmt::format("The machine: {}, {} allowed, {} of memory",
                      get_string(facts, "cpu_model").value_or("?"),
                      format_counted(get_integer(facts, "cpus_allowed").value_or(0), "CPU"),
                      format_bytes(get_integer(facts, "memory_allowed_bytes").value_or(0)));
  std::vector<std::string> gpus;
  for (const Json& gpu : member(facts, "gpus"))
    gpus.push_back(get_string(gpu, "name").value_or("?"));
  text += gpus.empty() ? ", no GPU" : ", " + listed(gpus);
  const char* const library = is_script(record.run.recipe) ? "; PyTorch " : "; LibTorch ";
  return text + library + record.environment->libtorch + ".\n";
}

// Where the time of a step went.
std::string step(const Json& profile) {
  const Json& metrics = member(profile, "metrics");
  const auto duration_ns = get_number(metrics, "step.duration_ns");
  const std::vector<Share> shares = shares_of(profile);
  if (!duration_ns || shares.empty()) return "There is no profile of its time.\n";
  const double waited = get_number(metrics, "step.data_wait_ratio").value_or(0.0);
  std::string text = fmt::format(
      "A profiled step took {} and waited {} of that time for data",
      format_duration(nanoseconds(static_cast<std::int64_t>(*duration_ns))), format_share(waited));
  std::vector<std::string> named;
  for (const Share& share : shares) {
    if (share.ratio < kWorthNaming || share.metric == "step.data_wait_ratio") continue;
    named.push_back(format_share(share.ratio) + " " + share.text);
  }
  text += named.empty() ? ".\n" : "; the rest: " + listed(named) + ".\n";
  std::vector<std::string> operators;
  for (const Share& share : operators_of(profile, kOperatorsNamed)) {
    if (share.ratio >= kWorthNaming)
      operators.push_back(share.text + " " + format_share(share.ratio));
  }
  if (!operators.empty()) text += "Most of the step by operator: " + listed(operators) + ".\n";
  if (const std::string slow = slow_rank_text(metrics); !slow.empty()) text += slow + "\n";
  return text;
}

std::string start(const RunRecord& record) {
  const storage::RunRow& run = record.run;
  if (run.baseline_samples_per_second <= 0.0)
    return "The starting configuration was not measured.\n";
  std::string text = fmt::format("The starting configuration trained {}.\n",
                                 rate_text(run.baseline_samples_per_second, unit_of(run)));
  const Json* profile = profile_of(record.profiles, run.starting);
  if (profile == nullptr && !record.profiled_by.empty()) {
    return text + "This run took no profile of its time. Run " + record.profiled_by +
           " of this job did: `autotuned explain " + record.profiled_by +
           "`; a trace of the start in the folder is of that run.\n";
  }
  if (profile == nullptr) return text + step(Json());
  return text + step(*profile) + findings_text(record, *profile, "Found:");
}

std::string checks_text(const std::vector<CheckRecord>& checks) {
  std::string text;
  for (const CheckRecord& check : checks) {
    text += fmt::format("; {} check {}: {}", check.risk, check.passed ? "passed" : "failed",
                        check.detail);
  }
  return text;
}

std::string confirmation_text(const RunRecord& record, const TrialRecord& trial, Outcome outcome) {
  const std::string figures = estimate_text(trial.estimate);
  if (outcome == Outcome::held) return "It holds: " + figures + " the rate of the start.";
  const bool is_open = outcome == Outcome::undecided;
  std::string text = is_open ? "It was not decided: " : "It does not hold: ";
  text += (trial.estimate.pairs > 0 ? figures + ": " : "") + trial.reason;
  if (trial.kind == TrialKind::verification) {
    return text + (is_open && record.run.starting == record.run.best
                       ? ". It stays stored, and the next run verifies it again."
                       : ". So the search began anew.");
  }
  if (const TrialRecord* dropped = dropped_by(record, trial)) {
    text += fmt::format(". So the last change was dropped: {} (trial {})",
                        change_text(dropped->reference, dropped->change), dropped->number);
  }
  return text + (is_open ? ". The next run tries it again." : ".");
}

// Why a change that was accepted at first is not in the final configuration.
std::string drop_text(const RunRecord& record, const TrialRecord& trial) {
  const TrialRecord* const dropper = dropper_of(record, trial);
  if (dropper == nullptr || dropper->kind == TrialKind::ablation) {
    return "the whole was not faster with it.";
  }
  return fmt::format(
      "the confirmation (trial {}) {}", dropper->number,
      is_undecided(*dropper) ? "was not decided. The next run tries it again." : "did not hold.");
}

std::string outcome_text(const RunRecord& record, const TrialRecord& trial, Outcome outcome) {
  const auto found = record.checks.find(trial.number);
  const std::vector<CheckRecord> checks =
      found == record.checks.end() ? std::vector<CheckRecord>{} : found->second;
  switch (outcome) {
    case Outcome::kept:
      return (is_unconfirmed(record.run) ? "Faster, and not confirmed: " : "Kept: ") +
             gain_text(trial.estimate) + checks_text(checks) + ".";
    case Outcome::dropped:
      return "Accepted at first: " + gain_text(trial.estimate) + checks_text(checks) +
             ". It was dropped later: " + drop_text(record, trial);
    case Outcome::slower:
      return "Rejected, slower: " + gain_text(trial.estimate) + ".";
    case Outcome::no_gain:
      if (trial.failure) return "Rejected: " + trial.reason + ".";
      return "Rejected, " + no_gain_text(trial) + ": " + gain_text(trial.estimate) +
             (trial.is_given_up     ? fmt::format("; {}.", kGivenUpMeaning)
              : is_undecided(trial) ? fmt::format("; {}.", kUndecidedMeaning)
                                    : std::string("."));
    case Outcome::wrong_result:
      return "Rejected, wrong result: it does not train the same model" + checks_text(checks) +
             (trial.estimate.pairs > 0
                  ? ". It would have been worth " + gain_text(trial.estimate) + "."
                  : std::string("."));
    case Outcome::rejected:
      return "Rejected: " + trial.reason + ".";
    case Outcome::failed:
      return trial.failure
                 ? fmt::format("Failed ({}): {}.", to_string(*trial.failure), trial.reason)
                 : fmt::format("Failed: {}.", trial.reason);
    case Outcome::interrupted:
      return trial.estimate.pairs > 0
                 ? "Interrupted before it was decided: " + gain_text(trial.estimate) + "."
                 : "Interrupted before it was decided.";
    case Outcome::held:
    case Outcome::did_not_hold:
    case Outcome::undecided:
      return confirmation_text(record, trial, outcome);
  }
  return {};
}

std::string trial_story(const RunRecord& record, const TrialRecord& trial, Outcome outcome) {
  const std::string change = change_text(trial.reference, trial.change);
  std::string text = std::to_string(trial.number) + ". ";
  switch (trial.kind) {
    case TrialKind::proposal:
      text += trial.plugin + " proposed " + change + ", because " + trial.proposal_reason + ".\n";
      break;
    case TrialKind::confirmation:
      text += "Confirmation of the whole against the start, in fresh blocks: " + change + ".\n";
      break;
    case TrialKind::ablation:
      break;  // told with what was kept
    case TrialKind::verification:
      text += "Verification of what an earlier run kept here: " + change + ".\n";
      break;
  }
  return text + "   " + outcome_text(record, trial, outcome) + "\n";
}

// Those that have the same to say share a line. Many that just proposed nothing are a number, unless `is_whole`.
std::string silences(std::vector<Silence> list, bool is_whole) {
  std::string text;
  const auto quiet = std::ranges::count(list, false, &Silence::is_failure);
  if (!is_whole && quiet > kMaxQuietTold) {
    std::erase_if(list, [](const Silence& silence) { return !silence.is_failure; });
    text = format_counted(quiet, "plugin") + " proposed nothing; --verbose says why.\n";
  }
  for (auto silence = list.begin(); silence != list.end(); ++silence) {
    const auto is_same = [&](const Silence& other) {
      return other.is_failure == silence->is_failure && other.because == silence->because;
    };
    if (std::find_if(list.begin(), silence, is_same) != silence) continue;
    std::vector<std::string> plugins;
    for (const Silence& other : list)
      if (is_same(other)) plugins.push_back(other.plugin);
    text += fmt::format("{} {}: {}.\n", listed(plugins),
                        !silence->is_failure ? "proposed nothing"
                        : plugins.size() > 1 ? "were left out"
                                             : "was left out",
                        silence->because);
  }
  return text;
}

std::string tried(const RunRecord& record, bool is_whole) {
  std::string text;
  const auto outcomes = outcomes_of(record);
  for (const TrialRecord& trial : record.trials) {
    if (trial.kind == TrialKind::ablation) continue;
    text += trial_story(record, trial, outcomes.at(trial.number));
  }
  if (text.empty()) text = "No change was tried.\n";
  const std::string taken = searched_by_text(record.run.training);
  if (!taken.empty()) text += "Nothing was searched: " + taken + ".\n";
  text += silences(silent_plugins(record), is_whole);
  if (const PluginCounts counts = plugin_counts(record); counts.asked > 0) {
    text += fmt::format("{} {} asked: {}.\n", format_counted(counts.asked, "plugin"),
                        counts.asked == 1 ? "was" : "were", counts.text());
  }
  return text + untried_text(record.run, is_whole);
}

std::string kept(const RunRecord& record) {
  const storage::RunRow& run = record.run;
  if (is_unconfirmed(run)) return "Nothing: " + unconfirmed_text(run, record.trials) + ".\n";
  if (run.best.empty()) return "Nothing yet: the tuning has not ended.\n";
  const Configuration change = run.starting.change_to(run.best);
  const bool is_extension = !extended_run(run).empty();
  // What was found, and in which budget, is a matter of the run that began the training.
  if (is_extension && change.empty()) return "The starting configuration.\n";
  if (is_unsearched(run) && !is_extension) {
    return has_untried(run.training)
               ? "The starting configuration: its budget was too small for a trial.\n"
               : "The starting configuration: with a budget of 0 nothing was searched.\n";
  }
  if (change.empty() && record.trials.empty() && run.training.contains(kShortage)) {
    return "The starting configuration: its budget was too small for a trial.\n";
  }
  if (change.empty()) {
    return fmt::format("The starting configuration: {}{}.\n",
                       lacks_confirmation(record.trials) ? "nothing was confirmed to be faster"
                                                         : "nothing faster was found",
                       has_untried(run.training) ? " in the budget" : "");
  }
  std::string text = change_text(run.starting, change) + ".\n";
  if (const std::string ranks = ranks_text(run.recipe, run.best);
      ranks != ranks_text(run.recipe, run.starting)) {
    text += "With it: " + ranks + ".\n";
  }
  if (run.speedup.pairs > 0) {
    const std::string quotient = quotient_note(run);
    text += fmt::format(
        "Confirmed side by side with the start: {} as fast over {} of blocks, "
        "{} instead of {}{}.\n",
        estimate_text(run.speedup), format_counted(run.speedup.pairs, "pair"),
        rate_text(run.best_samples_per_second, unit_of(run)),
        rate_text(run.baseline_samples_per_second, unit_of(run)),
        quotient.empty() ? "" : " (the ratio is " + quotient + ")");
    if (const std::string left_out = left_out_text(run); !left_out.empty()) {
      text += "This was " + left_out + ".\n";
    }
    if (const std::int64_t cost_ns = one_time_ns(record.trials); cost_ns > 0) {
      text += fmt::format(
          "One-time work of this configuration, such as filling a cache, takes {} of a training, "
          "which repays it.\n",
          format_duration(nanoseconds(cost_ns)));
    }
  }
  if (const Json* profile = profile_of(record.profiles, run.best)) {
    text += step(*profile) + findings_text(record, *profile, "Still found:");
  }
  return text;
}

std::string ablation(const RunRecord& record) {
  std::string text;
  for (const TrialRecord& trial : record.trials) {
    if (trial.kind != TrialKind::ablation) continue;
    text +=
        fmt::format("Without {} ({}): ", trial.plugin, change_text(trial.reference, trial.change));
    if (trial.estimate.pairs == 0) {
      text += "not measured, " + trial.reason + ".\n";
    } else {
      text += (trial.verdict == Verdict::accepted ? "it gives" : no_gain_text(trial) + ",") + " " +
              gain_text(trial.estimate) + ".\n";
    }
  }
  return text;
}

// The rungs below the ceiling, which is told already.
std::string lower_rungs(const Json& ladder) {
  std::vector<std::string> rungs;
  for (const Json& rung : ladder) {
    const std::string name = get_string(rung, "rung").value_or("");
    const std::string_view words = rung_text(name);
    if (words.empty() || name == "device_batch") continue;
    rungs.push_back(fmt::format(
        "{} {} ({} reached)", rate_text(get_number(rung, "samples_per_second").value_or(0.0)),
        words, format_share(std::min(1.0, get_number(rung, "reached_ratio").value_or(0.0)))));
  }
  return rungs.empty() ? std::string() : "It would train at least " + listed(rungs) + ".\n";
}

std::string left(const storage::RunRow& run) {
  const auto reached = reached_ceiling_ratio(run);
  if (!reached && is_script(run.recipe)) {
    return "What free loading would give is not measured in a script.\n";
  }
  if (!reached) return "Its ceiling was not measured.\n";
  if (has_passed_ceiling(run)) {
    return fmt::format(
        "Its ceiling is not known: the training reached {}, more than the {} that were measured "
        "with loading and transfer for free.\n",
        rate_text(trained_samples_per_second(run).value_or(0.0), unit_of(run)),
        rate_text(run.ceiling_samples_per_second, unit_of(run)));
  }
  std::string text = fmt::format("With loading and transfer for free it would train at least {}",
                                 rate_text(run.ceiling_samples_per_second));
  text += *reached >= kMinReachedRatio
              ? fmt::format("; it reaches {} of that, so faster loading was not shown to gain more",
                            format_share(std::min(1.0, *reached)))
              : fmt::format("; it reaches {} of that", format_share(*reached));
  return text + ". What bounds it then is " + run.ceiling_bound_by + ".\n" +
         lower_rungs(run.ceiling_ladder);
}

// Every line of the paragraph, indented.
std::string section(const std::string& heading, const std::string& paragraph) {
  std::string text = "\n" + heading + "\n";
  std::size_t from = 0;
  for (std::size_t end = paragraph.find('\n'); end != std::string::npos;
       from = end + 1, end = paragraph.find('\n', from)) {
    text += "  " + paragraph.substr(from, end - from) + "\n";
  }
  return text;
}

std::string gives(const RunRecord& record) {
  const std::string text = ablation(record);
  return text.empty() ? text : section("What each change gives at the end", text);
}

std::string disturbed(const RunRecord& record) {
  std::string text;
  for (const std::string& finding : machine_findings(record.answers))
    text += finding + ".\n";
  return text.empty() ? text : section("What disturbed the measurements", text);
}

}  // namespace

std::string story_text(const RunRecord& record, bool is_whole) {
  return opening(record) + section("The job", job(record)) +
         section("At the start", start(record)) + disturbed(record) +
         section("What was tried", tried(record, is_whole)) +
         section("What was kept", kept(record)) + gives(record) +
         section("What is left", left(record.run)) +
         section("What it cost", cost_text(record.run, record.trials));
}

}  // namespace autotuned::daemon
