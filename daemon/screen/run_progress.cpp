// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/run_progress.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "daemon/report/report.hpp"
#include "daemon/report/token_report.hpp"

namespace autotuned::daemon {

namespace {

using std::chrono::nanoseconds;

// More epochs than this are not told one by one, except each that is the best so far.
constexpr std::int64_t kMaxEpochsTold = 10;
// A training of which nothing was said for so long, and for this share of its time before, is told again: its half may
// be far, above all if it becomes slow.
constexpr nanoseconds kLongestSilence = std::chrono::minutes(5);
constexpr int kSilentPart = 4;  // one of so many
// Rejected proposals wait so long for others, so that one line has them all.
constexpr nanoseconds kLongestGathering = std::chrono::minutes(2);
constexpr const char* kBeforeTraining = "starting a fresh trainer";
constexpr const char* kBetweenTrials = "choosing what to try next";

nanoseconds duration_in(const Json& object, const char* field) {
  return nanoseconds(std::max<std::int64_t>(integer_in(object, field), 0));
}

// Takes the run that the session has in the history. An earlier session may have reported a part of it already.
void take_run(RunProgress& progress, const Json& event) {
  progress.recipe = text_in(event, "recipe");
  progress.has_begun = true;
  const bool is_tuned = text_in(event, "state") == "training";
  progress.stage = is_tuned ? Stage::training : Stage::tuning;
  progress.doing = is_tuned ? kBeforeTraining : "measuring the starting configuration";
  progress.trials_done = 0;
  progress.trials_about = 0;
  progress.trials_before = 0;
  progress.is_before_told = false;
  progress.trial.reset();
  progress.kept.clear();
  progress.confirmed.reset();
  progress.free_input_ratio = 0.0;
}

// The ratio of the highest rung, measured in the same blocks: rates of two other moments may have drifted.
double free_input_ratio_of(const Json& event) {
  for (const Json& rung : member(event, "ladder")) {
    const double reached = number_in(rung, "reached_ratio");
    if (text_in(rung, "rung") == "device_batch" && reached > 0.0) return 1.0 / reached;
  }
  return 0.0;
}

// Only the first one names the recipe; the other is the check of what was trained.
void take_phase(RunProgress& progress, const Json& event) {
  const std::string recipe = text_in(event, "recipe");
  progress.stage = recipe.empty() ? Stage::checking : Stage::starting;
  progress.doing = text_in(event, "phase");
  if (!recipe.empty()) progress.recipe = recipe;
}

void take_tuning(RunProgress& progress, const Json& event, nanoseconds now) {
  progress.trials_done = static_cast<int>(integer_in(event, "trials_done"));
  const int expected = static_cast<int>(integer_in(event, "trials_expected"));
  progress.trials_about = expected > 0 ? progress.trials_done + expected : 0;
  progress.budget = duration_in(event, "budget_ns");
  progress.budget_spent = duration_in(event, "budget_spent_ns");
  progress.budget_told_at = now;
  progress.said.before = progress.trials_before > 0 && !progress.is_before_told;
  progress.is_before_told = true;
}

void take_answer(RunProgress& progress, const Json& event) {
  const std::string plugin = text_in(event, "plugin");
  const std::string outcome = text_in(event, "outcome");
  const auto known = progress.outcomes.find(plugin);
  progress.said.answer =
      !outcome.empty() && (known == progress.outcomes.end() || known->second != outcome);
  progress.plugins.answered(plugin, outcome, flag_in(event, "is_failure"));
  progress.outcomes[plugin] = outcome;
  progress.doing = kBetweenTrials;
}

// Once, when what is tried first is known.
void tell_inapplicable(RunProgress& progress) {
  if (progress.is_inapplicable_told || progress.plugins.counts().inapplicable == 0) return;
  progress.is_inapplicable_told = true;
  progress.said.inapplicable = true;
}

// The same as in tuner::Session::restore(), by what the events tell.
void take_verdict(RunProgress& progress, const Json& event) {
  const Json& trial = member(event, "trial");
  const std::string kind = text_in(trial, "kind");
  const std::string verdict = text_in(trial, "verdict");
  if (verdict == "interrupted") return;
  const bool is_accepted = verdict == "accepted";
  const std::size_t kept_before = progress.kept.size();
  const auto change = Configuration::from_json(member(trial, "change"));
  if (kind == "verification" && is_accepted) {
    progress.kept = {{.title = title_of(trial), .change = {}, .ratio = number_in(trial, "ratio")}};
    progress.confirmed = estimate_of(trial);
  } else if (kind == "proposal" && is_accepted && change) {
    progress.kept.push_back(
        {.title = title_of(trial), .change = *change, .ratio = number_in(trial, "ratio")});
    progress.confirmed.reset();
  } else if (kind == "confirmation" && is_accepted) {
    progress.confirmed = estimate_of(trial);
  } else if (kind == "confirmation" && !progress.kept.empty()) {
    progress.said.withdrawn.push_back(progress.kept.back());
    progress.kept.pop_back();
  } else if (kind == "ablation" && flag_in(event, "drops_change") && change &&
             !progress.confirmed) {
    const auto is_dropped = [&](const KeptChange& kept) {
      return !kept.change.empty() &&
             std::ranges::all_of(kept.change.values(), [&](const auto& turned) {
               return change->find(turned.first) != nullptr;
             });
    };
    std::ranges::copy_if(progress.kept, std::back_inserter(progress.said.withdrawn), is_dropped);
    std::erase_if(progress.kept, is_dropped);
  }
  if (progress.kept.size() != kept_before) progress.free_input_ratio = 0.0;
}

// As `explain` counts: what was interrupted was not tried.
void note_tried(RunProgress& progress, const Json& trial) {
  const bool is_decided = text_in(trial, "verdict") != "interrupted";
  if (is_decided && text_in(trial, "kind") == "proposal") {
    progress.plugins.tried(text_in(trial, "plugin"));
  }
}

void take_trial_start(RunProgress& progress, const Json& trial) {
  progress.stage = Stage::tuning;
  progress.doing.clear();
  progress.trial.emplace();
  progress.trial->number = progress.trials_done + 1;
  progress.trial->title = title_of(trial);
  tell_inapplicable(progress);
}

void take_block(RunProgress& progress, const Json& event) {
  if (!progress.trial) return;
  progress.trial->estimate = estimate_of(event);
}

bool is_silent_for_long(const RunProgress& progress, nanoseconds now) {
  const nanoseconds before = progress.training_told_at - progress.training_began;
  return now - progress.training_told_at >= std::max(kLongestSilence, before / kSilentPart);
}

void take_training(RunProgress& progress, const Json& told, nanoseconds now) {
  progress.stage = Stage::training;
  progress.trial.reset();
  if (member(told, "checkpoint").is_object()) return;
  if (!progress.training) {
    progress.training = TrainingUnderWay{};
    progress.training_began = now;
    progress.training_told_at = now;
  }
  TrainingUnderWay& training = *progress.training;
  if (const Json& evaluation = member(told, "evaluation"); evaluation.is_object()) {
    const int tenths = static_cast<int>(training.done_ratio() * 10);
    progress.said.evaluation = training.epochs_total <= kMaxEpochsTold ||
                               tenths > progress.told_tenths || flag_in(evaluation, "is_best");
    if (!progress.said.evaluation) return;
    progress.told_tenths = tenths;
    progress.told_halves = static_cast<int>(training.done_ratio() * 2);
    progress.training_told_at = now;
    return;
  }
  training = {.step = integer_in(told, "step"),
              .steps_total = integer_in(told, "steps_total"),
              .epoch = integer_in(told, "epoch"),
              .epochs_total = integer_in(told, "epochs_total"),
              .samples = number_in(told, "samples"),
              .samples_total = number_in(told, "samples_total"),
              .samples_per_second = number_in(told, "samples_per_second"),
              .tokens_per_second = number_in(told, "tokens_per_second"),
              .loss = loss_in(told),
              .told_at = now};
  // The last one comes with the evaluation, or with the result.
  const int halves = std::min(static_cast<int>(training.done_ratio() * 2), 1);
  progress.said.training = halves > progress.told_halves || is_silent_for_long(progress, now);
  progress.told_halves = std::max(progress.told_halves, halves);
  if (progress.said.training) progress.training_told_at = now;
}

// A disturbed trial and a confirmation say more than a word.
bool is_told_in_a_word(const Json& trial) {
  return text_in(trial, "verdict") == "rejected" && text_in(trial, "kind") == "proposal" &&
         text_in(trial, "failure").empty() && !rejection_word(trial).empty();
}

// What is told of one decides when those before it are told.
bool is_milestone(const std::string& event) {
  return event == "trial_finished" || event == "tuned" || event == "cancelling" ||
         event == "error" || event == "result";
}

void gather_rejections(RunProgress& progress, const Json& event, nanoseconds now) {
  const std::string name = text_in(event, "event");
  const Json& trial = member(event, "trial");
  progress.said.is_rejection = name == "trial_finished" && is_told_in_a_word(trial);
  if (progress.said.is_rejection) {
    if (progress.rejections.empty()) progress.rejected_at = now;
    progress.rejections.push_back(trial);
  }
  if (progress.rejections.empty()) return;
  const bool is_due = now - progress.rejected_at >= kLongestGathering;
  if (is_due || (is_milestone(name) && !progress.said.is_rejection)) {
    progress.said.rejections = std::exchange(progress.rejections, {});
  }
}

}  // namespace

double TrainingUnderWay::done_ratio() const {
  return samples_total > 0.0 ? std::clamp(samples / samples_total, 0.0, 1.0) : 0.0;
}

std::string TrainingUnderWay::rate_text() const {
  return rate_with_tokens(samples_per_second, tokens_per_second);
}

nanoseconds TrainingUnderWay::left(nanoseconds now) const {
  if (!(samples_per_second > 0.0)) return nanoseconds{0};
  // A trainer may say anything; a century is long enough.
  const double seconds = std::clamp((samples_total - samples) / samples_per_second, 0.0, 3e9);
  const auto whole = nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  return std::max(whole - (now - told_at), nanoseconds{0});
}

double RunProgress::best_ratio() const {
  if (confirmed) return confirmed->ratio;
  double ratio = 1.0;
  for (const KeptChange& change : kept)
    ratio *= change.ratio;
  return ratio;
}

nanoseconds RunProgress::spent(nanoseconds now) const {
  return budget_spent + (now - budget_told_at);
}

void take(RunProgress& progress, const Json& event, nanoseconds now) {
  if (progress.said.findings) progress.findings = Json::array();
  progress.said = {};
  const std::string name = text_in(event, "event");
  progress.waits_for = name == "waiting" ? text_in(event, "for") : "";
  if (name == "run") {
    take_run(progress, event);
  } else if (name == "phase") {
    take_phase(progress, event);
  } else if (name == "baseline") {
    progress.start_samples_per_second = number_in(event, "samples_per_second");
    progress.doing = "measuring the upper bound";
  } else if (name == "ceiling") {
    progress.free_input_ratio = free_input_ratio_of(event);
    progress.bound_by = text_in(event, "bound_by");
    ++progress.upper_bounds;
    progress.doing = "taking a profile";
  } else if (name == "tuning") {
    take_tuning(progress, event, now);
  } else if (name == "earlier_trial") {
    take_verdict(progress, event);
    note_tried(progress, member(event, "trial"));
    progress.said = {};
    ++progress.trials_before;
  } else if (name == "profiled") {
    if (get_bool(event, "is_start").value_or(true)) progress.findings = member(event, "findings");
  } else if (name == "asking") {
    progress.doing = "asking " + text_in(event, "plugin");
    progress.plugins.asked(text_in(event, "plugin"));
  } else if (name == "answered") {
    take_answer(progress, event);
  } else if (name == "trial_started") {
    take_trial_start(progress, member(event, "trial"));
    progress.said.findings = !progress.findings.empty();
  } else if (name == "block") {
    take_block(progress, event);
  } else if (name == "checked") {
    if (progress.trial) progress.trial->checked = text_in(event, "detail");
  } else if (name == "trial_finished") {
    take_verdict(progress, event);
    note_tried(progress, member(event, "trial"));
    ++progress.trials_done;
    progress.trial.reset();
    progress.doing = kBetweenTrials;
  } else if (name == "tuned") {
    progress.confirmed = Estimate{.ratio = number_in(event, "speedup"),
                                  .low = number_in(event, "speedup_low"),
                                  .high = number_in(event, "speedup_high"),
                                  .pairs = 1};
    progress.trial.reset();
    progress.stage = Stage::training;
    progress.doing = kBeforeTraining;
    progress.said.findings = !progress.findings.empty();
  } else if (name == "training") {
    take_training(progress, member(event, "progress"), now);
  } else if (name == "damaged") {
    progress.damaged = integer_in(event, "files");
  } else if (name == "cancelling") {
    progress.is_stopping = true;
  } else if (name == "result") {
    progress.stage = Stage::ended;
  }
  gather_rejections(progress, event, now);
}

std::string change_of(const Json& trial) {
  const auto change = Configuration::from_json(member(trial, "change"));
  const auto reference = Configuration::from_json(member(trial, "reference"));
  if (!change || !reference) return "?";
  return change_text(*reference, *change);
}

Estimate estimate_of(const Json& trial) {
  return {.ratio = number_in(trial, "ratio"),
          .low = number_in(trial, "ratio_low"),
          .high = number_in(trial, "ratio_high"),
          .pairs = static_cast<int>(integer_in(trial, "pairs"))};
}

std::string title_of(const Json& trial) {
  const std::string kind = text_in(trial, "kind");
  return (kind == "proposal" ? text_in(trial, "plugin") : kind) + ": " + change_of(trial);
}

std::string rejection_word(const Json& trial) {
  const std::string rejection = text_in(trial, "rejection");
  if (rejection == "slower") return "slower";
  if (rejection == "no_gain") {
    return std::string(flag_in(trial, "is_given_up") ? kGivenUpWords : "no gain");
  }
  if (rejection == "undecided_in_time") return "undecided";
  return {};
}

std::string text_in(const Json& object, const char* field) {
  return get_string(object, field).value_or("");
}

double number_in(const Json& object, const char* field) {
  return get_number(object, field).value_or(0.0);
}

double loss_in(const Json& object) {
  const bool is_told = object.contains("loss") && member(object, "loss").is_null();
  return is_told ? std::numeric_limits<double>::quiet_NaN() : number_in(object, "loss");
}

std::int64_t integer_in(const Json& object, const char* field) {
  return get_integer(object, field).value_or(0);
}

bool flag_in(const Json& object, const char* field) {
  return get_bool(object, field).value_or(false);
}

}  // namespace autotuned::daemon
