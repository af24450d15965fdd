// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/rank_report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/test_report.hpp"
#include "daemon/report/token_report.hpp"
#include "daemon/report/training_course.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_end.hpp"
#include "daemon/report/tuning_time.hpp"

namespace autotuned::daemon {

namespace {

// The pairs of a trial that failed decide nothing, and may be what it failed for.
bool has_meaning(const TrialRecord& trial) {
  return trial.estimate.pairs > 0 && trial.verdict != Verdict::failed;
}

// What a whole run tells of its training, and a list of runs leaves out.
constexpr std::array kOfClasses = {"class_names", "test_classes", "test_confusion", "test_tags",
                                   "test_targets"};

std::string training_text(const storage::RunRow& run) {
  const auto steps = get_integer(run.training, "steps");
  if (!steps) {
    const std::string stopped = stopped_text(run);
    return stopped.empty() ? "" : "stopped  " + stopped + "\n";
  }
  const bool is_all = get_bool(run.training, "is_counted_to_end").value_or(true);
  std::string text = fmt::format("trained  {}{}", format_counted(*steps, "step"),
                                 is_all ? "" : " until its tuning ended, and more after it");
  // JSON has null in the place of what is not finite.
  if (run.training.contains("final_loss")) {
    text += ", " + loss_text(get_number(run.training, "final_loss").value_or(std::nan("")));
  }
  text += test_figures_text(run);
  if (const auto damaged = get_integer(run.training, "damaged_files"); damaged && *damaged > 0) {
    text += ", " + format_counted(*damaged, "damaged file") + " skipped";
  }
  text += "\n";
  const auto rate = trained_samples_per_second(run);
  if (!rate) return text;
  if (run.best_samples_per_second <= 0.0)
    return text + "         at " + run_rate_text(run, *rate) + "\n";
  text += fmt::format("         at {}; tuning measured {}\n", run_rate_text(run, *rate),
                      run_rate_text(run, run.best_samples_per_second));
  // A training that was slow tells it as the cause.
  if (const std::string busier = busier_text(run); !busier.empty() && !has_trained_slowly(run)) {
    text += "load     " + busier + ": rates of the two do not compare\n";
  }
  return text + slow_training_lines(run);
}

// "rejected, undecided": how, where the rates decided it.
std::string verdict_text(const TrialRecord& trial) {
  std::string text(to_string(trial.verdict));
  if (trial.verdict != Verdict::rejected || !trial.rejection) return text;
  switch (*trial.rejection) {
    case RejectionReason::slower:
    case RejectionReason::no_gain:
    case RejectionReason::undecided_in_time:
      return text + ", " + no_gain_text(trial);
    case RejectionReason::totals:
    case RejectionReason::memory_limit:
    case RejectionReason::not_repaid:
    case RejectionReason::not_same_model:
      break;
  }
  return text;
}

// How many samples a step has, where that is no setting: at the start and, if that differs, with what was kept.
std::string ranks_line(const storage::RunRow& run) {
  const std::string start = ranks_text(run.recipe, run.starting);
  if (start.empty()) return {};
  const std::string best = run.best.empty() ? start : ranks_text(run.recipe, run.best);
  return "ranks    " + start + (best == start ? "" : "; kept: " + best) + "\n";
}

// What the tuning of this run measured and kept.
std::string tuning_text(const storage::RunRow& run, const std::vector<TrialRecord>& trials) {
  const bool is_confirmed = run.speedup.pairs > 0;
  const std::string note = quotient_note(run);
  const std::string left_out = left_out_text(run);
  std::string text = fmt::format(
      "start    {}{}\nbest     {}{}\nfaster   {}{}\n",
      run_rate_text(run, run.baseline_samples_per_second),
      is_confirmed ? ", beside the best one" : "", run_rate_text(run, run.best_samples_per_second),
      left_out.empty() ? "" : ", with " + left_out_plugins(run),
      is_confirmed ? estimate_text(run.speedup) + (left_out.empty() ? "" : ", " + left_out)
                   : "nothing confirmed: the starting configuration stays",
      note.empty() ? "" : ": " + note);
  if (const std::int64_t cost_ns = one_time_ns(trials); cost_ns > 0 && is_confirmed) {
    text += fmt::format("once     {}: what the change costs once, repaid within one training\n",
                        format_duration(std::chrono::nanoseconds(cost_ns)));
  }
  if (has_passed_ceiling(run)) {
    text += fmt::format("ceiling  not known: the training passed the {} that were measured\n",
                        rate_text(run.ceiling_samples_per_second));
  } else if (has_reached_ceiling(run)) {
    text += fmt::format(
        "ceiling  reached: bound by {}; faster loading or transfer was not shown to gain more\n",
        run.ceiling_bound_by);
  } else if (run.ceiling_samples_per_second > 0) {
    text += fmt::format("ceiling  at least {} with free loading and transfer, bound by {}",
                        rate_text(run.ceiling_samples_per_second), run.ceiling_bound_by);
    if (const auto reached = reached_ceiling_ratio(run)) {
      text += fmt::format("; {} of that is reached", format_share(*reached));
    }
    text += "\n";
    if (const std::string bounds = ladder_text(run.ceiling_ladder); !bounds.empty()) {
      text += "bounds   " + bounds + "\n";
    }
  }
  if (const std::string taken = searched_by_text(run.training); !taken.empty()) {
    text += "search   " + taken + "\n";
  }
  text += fmt::format("kept     {}\ntuning   {}\n",
                      change_text(run.starting, run.starting.change_to(run.best)),
                      format_duration(std::chrono::nanoseconds(run.tuning_duration_ns)));
  if (const std::string overrun = overrun_text(run); !overrun.empty()) {
    text += "         " + overrun + "\n";
  }
  return text;
}

// What the run came to, once something is kept.
std::string outcome_text(const storage::RunRow& run, const std::vector<TrialRecord>& trials) {
  if (run.best.empty() && is_script(run.recipe) && is_unconfirmed(run)) {
    return "kept     nothing: " + unconfirmed_text(run, trials) + "\n";
  }
  if (run.best.empty()) return {};
  const std::string extended = extended_run(run);
  const std::string lineage =
      extended.empty() ? "" : "extends  run " + extended + " and uses its configuration\n";
  if (is_unsearched(run)) {
    const std::string why = get_string(run.training, kShortage)
                                .value_or("its budget is 0: the starting configuration stays");
    const std::string tuning =
        extended.empty() ? "tuning   none, since " + why + "\n" : "tuning   none\n";
    return lineage + tuning + training_text(run) + classes_text(run.training) +
           best_evaluation_text(run);
  }
  std::string text =
      extended.empty() ? tuning_text(run, trials) : lineage + tuning_before_text(run);
  text += training_text(run) + classes_text(run.training) + best_evaluation_text(run);
  if (const std::string fallback = memory_fallback_text(run); !fallback.empty()) {
    text += "memory   " + fallback + "\n";
  }
  if (const std::string fallback = extension_fallback_text(run); !fallback.empty()) {
    text += "plugin   " + fallback + "\n";
  }
  if (const std::string steps = steps_under_text(run.training); !steps.empty()) {
    text += "steps    while it was tuned: " + steps + "\n";
  }
  text += open_lines(run, trials);
  if (const std::string check = trained_check_text(run); !check.empty()) {
    text += fmt::format("{}  {}\n", has_failed_check(run) ? "WARNING" : "note   ", check);
  }
  return text;
}

}  // namespace

// `duration_ns` is that of the steps alone (docs/trainer-protocol.md).
std::optional<double> trained_samples_per_second(const storage::RunRow& run) {
  const double samples = get_number(run.training, "samples").value_or(0.0);
  const double duration_ns = get_number(run.training, "duration_ns").value_or(0.0);
  if (!(samples > 0.0) || !(duration_ns > 0.0)) return std::nullopt;
  return samples / (duration_ns * 1e-9);
}

bool has_passed_ceiling(const storage::RunRow& run) {
  constexpr double kPassedRatio = 1.005;
  const double trained = trained_samples_per_second(run).value_or(0.0);
  return run.ceiling_samples_per_second > 0.0 &&
         trained > kPassedRatio * run.ceiling_samples_per_second;
}

std::optional<double> reached_ceiling_ratio(const storage::RunRow& run) {
  if (run.ceiling_samples_per_second <= 0.0 || run.best_samples_per_second <= 0.0) {
    return std::nullopt;
  }
  return run.best_samples_per_second / run.ceiling_samples_per_second;
}

bool has_reached_ceiling(const storage::RunRow& run) {
  constexpr double kReachedRatio = 0.995;
  return reached_ceiling_ratio(run).value_or(0.0) >= kReachedRatio;
}

Json ceiling_json(const storage::RunRow& run) {
  const auto reached = reached_ceiling_ratio(run);
  return {{"samples_per_second", run.ceiling_samples_per_second},
          {"bound_by", run.ceiling_bound_by},
          {"ladder", run.ceiling_ladder},
          {"reached_ratio", reached ? Json(*reached) : Json()},
          {"is_passed", has_passed_ceiling(run)}};
}

bool is_unsearched(const storage::RunRow& run) {
  return !run.best.empty() && run.baseline_samples_per_second <= 0.0;
}

std::string quotient_note(const storage::RunRow& run) {
  if (run.speedup.pairs == 0 || run.baseline_samples_per_second <= 0.0) return {};
  const auto shown = [](double ratio) { return fmt::format("{:.2f}", ratio); };
  const double quotient = run.best_samples_per_second / run.baseline_samples_per_second;
  if (shown(quotient) == shown(run.speedup.ratio)) return {};
  return "the median over pairs; the two rates are medians over blocks";
}

std::string busier_text(const storage::RunRow& run) {
  // Less than this share of the CPU time is what measurements of two stretches differ by anyhow.
  constexpr double kBusier = 0.05;
  const auto training = get_number(run.training, "other_work_ratio");
  const auto tuning = get_number(run.training, "tuning_other_work_ratio");
  if (!training || !tuning || *training - *tuning < kBusier) return {};
  return fmt::format(
      "other work took {} of the CPU time while it trained, and {} while it was tuned",
      format_share(*training), format_share(*tuning));
}

bool is_undecided(const TrialRecord& trial) {
  return trial.rejection == RejectionReason::undecided_in_time;
}

bool is_undecided_whole(const TrialRecord& trial) {
  return (trial.kind == TrialKind::confirmation || trial.kind == TrialKind::verification) &&
         is_undecided(trial);
}

bool lacks_confirmation(const std::vector<TrialRecord>& trials) {
  const auto last = std::find_if(trials.rbegin(), trials.rend(), [](const TrialRecord& trial) {
    return trial.kind == TrialKind::confirmation || trial.kind == TrialKind::verification;
  });
  return last != trials.rend() && last->verdict != Verdict::accepted;
}

std::string speedup_text(const Estimate& speedup, bool is_unproven) {
  return speedup.pairs == 0 && is_unproven ? "not confirmed" : estimate_text(speedup);
}

std::string no_gain_text(const TrialRecord& trial) {
  if (is_undecided(trial)) return "undecided";
  if (trial.is_given_up) return std::string(kGivenUpWords);
  return trial.rejection == RejectionReason::slower ? "slower" : "no gain";
}

std::string state_text(const storage::RunRow& run) {
  if (is_script(run.recipe) && !run.is_interrupted) return script_state_text(run);
  return std::string(storage::to_string(run.state)) + (run.is_interrupted ? ", interrupted" : "");
}

Json run_summary_json(const storage::RunRow& run) {
  Json training = run.training;
  if (const auto rate = trained_samples_per_second(run)) training["samples_per_second"] = *rate;
  if (const std::string file = averages_tested(run); !file.empty()) training[kTestWeights] = file;
  for (const char* const of_classes : kOfClasses) {
    if (training.is_object()) training.erase(of_classes);
  }
  const std::string extended = extended_run(run);
  return {{"run", run.id.text},
          {"extends", extended.empty() ? Json() : Json(extended)},
          {"recipe", run.recipe_name},
          {"recipe_hash", run.recipe_hash},
          {"machine", run.environment_key},
          {"state", storage::to_string(run.state)},
          {"is_interrupted", run.is_interrupted},
          {"started_unix_ns", run.started_unix_ns},
          {"ended_unix_ns", run.ended_unix_ns},
          {"baseline", {{"samples_per_second", run.baseline_samples_per_second}}},
          {"best",
           {{"samples_per_second", run.best_samples_per_second},
            {"speedup", run.speedup.ratio},
            {"speedup_low", run.speedup.low},
            {"speedup_high", run.speedup.high},
            {"configuration", run.best.to_json()}}},
          {"tuning_seconds", static_cast<double>(run.tuning_duration_ns) / 1e9},
          {"training", std::move(training)},
          {"output", run.output_dir},
          {"error", run.error},
          {"note", stand_in_note(run.recipe)}};
}

std::int64_t one_time_ns(const std::vector<TrialRecord>& trials) {
  std::int64_t cost_ns = 0;
  for (const TrialRecord& trial : trials) {
    const bool decides =
        trial.kind == TrialKind::confirmation || trial.kind == TrialKind::verification;
    if (decides && trial.verdict == Verdict::accepted) cost_ns = trial.one_time_ns;
  }
  return cost_ns;
}

const Json* profile_of(const std::vector<Json>& profiles, const Configuration& configuration) {
  const Json wanted = configuration.to_json();
  const Json* found = nullptr;
  for (auto profile = profiles.rbegin(); profile != profiles.rend(); ++profile) {
    if (member(*profile, "configuration") != wanted) continue;
    // One that a session took when it went on may have no trace beside it.
    if (member(*profile, "metrics").contains("steps_count")) return &*profile;
    if (found == nullptr) found = &*profile;
  }
  return found;
}

Json run_json(const storage::RunRow& run, const std::vector<TrialRecord>& trials,
              const std::vector<storage::TrialTrainerEnd>& ends,
              const std::vector<Json>& profiles) {
  const auto ends_of = [&ends](int trial) {
    Json list = Json::array();
    for (const storage::TrialTrainerEnd& found : ends) {
      if (found.trial == trial) list.push_back(trainer_end_json(found.end));
    }
    return list;
  };
  const auto findings = [&](const Configuration& configuration) {
    const Json* profile = profile_of(profiles, configuration);
    return profile == nullptr ? Json::array() : member(*profile, "findings");
  };
  Json json = run_summary_json(run);
  for (const char* const of_classes : kOfClasses) {
    if (const Json& all = member(run.training, of_classes); !all.is_null()) {
      json["training"][of_classes] = all;
    }
  }
  json["starting"] = {{"configuration", run.starting.to_json()},
                      {"findings", findings(run.starting)}};
  json["best"]["one_time_ns"] = one_time_ns(trials);
  json["best"]["findings"] = run.best.empty() ? Json::array() : findings(run.best);
  json["ceiling"] = ceiling_json(run);
  json["trials"] = Json::array();
  json["ablation"] = Json::array();
  for (const TrialRecord& trial : trials) {
    Json told = trial.to_json(run.id.text);
    told["trainer_ends"] = ends_of(trial.number);
    json[trial.kind == TrialKind::ablation ? "ablation" : "trials"].push_back(std::move(told));
  }
  json["trainer_ends"] = ends_of(0);
  return json;
}

Json trainer_end_json(const TrainerEnd& end) {
  Json json = end.evidence();
  json["outcome"] = to_string(end.outcome);
  json["ended_unix_ns"] = end.ended_unix_ns;
  return json;
}

Json check_json(const CheckRecord& check) {
  return {{"risk", check.risk},
          {"passed", check.passed},
          {"steps", check.steps},
          {"detail", check.detail},
          {"parameters", check.parameters}};
}

bool has_failed_check(const storage::RunRow& run) {
  return member(member(run.training, "check"), "passed") == false;
}

std::string trained_check_text(const storage::RunRow& run) {
  const Json& check = member(run.training, "check");
  if (!check.is_object() || member(check, "passed") == true) return {};
  const std::string detail = get_string(check, "detail").value_or("");
  if (!has_failed_check(run)) {
    return "it was not checked whether the kept configuration still trains as the starting one "
           "does from the trained weights: " +
           detail;
  }
  const auto refused = Configuration::from_json(member(check, "refused"));
  return "model.pt was trained by a configuration that does not train as the starting one does: " +
         detail + ". Later runs of this job leave out " +
         change_text(run.starting, refused.value_or(Configuration())) +
         ": the same command trains a model without it";
}

std::string stand_in_note(const Json& recipe) {
  if (get_string(member(recipe, "model"), "type").value_or("") != "paced") return {};
  return "the model `paced` stands in for an accelerator: rates are those of the input side";
}

std::string ablation_text(const std::vector<TrialRecord>& trials) {
  std::vector<std::vector<std::string>> rows = {
      {"without", "change", "verdict", "gives", "interval", "pairs"}};
  for (const TrialRecord& trial : trials) {
    if (trial.kind != TrialKind::ablation) continue;
    const bool is_measured = has_meaning(trial);
    rows.push_back({trial.plugin, change_text(trial.reference, trial.change),
                    trial.verdict == Verdict::accepted   ? "helps"
                    : trial.verdict == Verdict::rejected ? no_gain_text(trial)
                                                         : std::string(to_string(trial.verdict)),
                    is_measured ? ratio_text(trial.estimate, 3) : "-",
                    is_measured ? interval_text(trial.estimate, 3) : "-",
                    std::to_string(trial.estimate.pairs)});
  }
  return rows.size() == 1 ? std::string() : table_text(rows);
}

std::string summary_text(const storage::RunRow& run, const std::vector<TrialRecord>& trials) {
  std::string text;
  if (!run.error.empty()) text += fmt::format("error    {}\n", run.error);
  if (const std::string note = stand_in_note(run.recipe); !note.empty()) {
    text += fmt::format("note     {}\n", note);
  }
  const std::string outcome = outcome_text(run, trials);
  return text + (outcome.empty() ? "" : ranks_line(run)) + outcome;
}

std::string run_text(const storage::RunRow& run, const std::vector<TrialRecord>& trials) {
  std::string text = fmt::format("run      {}\n{}   {}\nstate    {}\nstarted  {}\n", run.id.text,
                                 is_script(run.recipe) ? "script" : "recipe", run.recipe_name,
                                 state_text(run), time_text(run.started_unix_ns)) +
                     ranks_line(run);
  if (!run.error.empty()) text += fmt::format("error    {}\n", run.error);
  if (const std::string note = stand_in_note(run.recipe); !note.empty()) {
    text += fmt::format("note     {}\n", note);
  }
  const bool is_anything_tried = std::ranges::any_of(
      trials, [](const TrialRecord& trial) { return trial.kind != TrialKind::ablation; });
  if (is_anything_tried) {
    std::vector<std::vector<std::string>> rows = {
        {"trial", "plugin", "change", "verdict", "ratio", "interval", "pairs"}};
    for (const TrialRecord& trial : trials) {
      if (trial.kind == TrialKind::ablation) continue;
      const bool is_measured = has_meaning(trial);
      rows.push_back(
          {std::to_string(trial.number),
           trial.kind == TrialKind::proposal ? trial.plugin : std::string(to_string(trial.kind)),
           change_text(trial.reference, trial.change), verdict_text(trial),
           is_measured ? ratio_text(trial.estimate, 3) : "-",
           is_measured ? interval_text(trial.estimate, 3) : "-",
           std::to_string(trial.estimate.pairs)});
    }
    text += "\n" + table_text(rows) + "\n";
  }
  if (const std::string ablation = ablation_text(trials); !ablation.empty()) {
    text += "The final configuration against the same without one change:\n" + ablation + "\n";
  }
  return text + outcome_text(run, trials);
}

std::string_view unit_of(const storage::RunRow& run) {
  return get_string(run.training, "counted").value_or("") == "steps" ? "steps" : "samples";
}

std::string time_of_trial_text(const TrialRecord& trial, const std::vector<TrialBlock>& blocks,
                               bool is_of_script) {
  const std::string text = format_duration(std::chrono::nanoseconds(trial.duration_ns));
  if (blocks.empty()) return trial.duration_ns > 0 ? text : "not known";
  std::int64_t measured_ns = 0;
  for (const TrialBlock& block : blocks)
    measured_ns += block.block.duration_ns;
  const std::string measured =
      fmt::format("{} in {} block{}", format_duration(std::chrono::nanoseconds(measured_ns)),
                  blocks.size(), blocks.size() == 1 ? "" : "s");
  // The time of a trial that has not ended, or was interrupted, is not known as a whole.
  if (trial.duration_ns <= measured_ns) return measured;
  return text + fmt::format(": {}; the rest is what lies between blocks, which may be {}", measured,
                            is_of_script ? "checks, steps such as evaluations, switches, and "
                                           "waiting for other runs"
                                         : "starting and warming processes, checks, switches, and "
                                           "waiting for other runs");
}

}  // namespace autotuned::daemon
