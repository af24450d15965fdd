// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/known_best.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/report/script_report.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/session/known_knobs.hpp"
#include "tuner/confirmation.hpp"
#include "tuner/one_time_cost.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::int64_t kDecidedTrials = 200;
// The newest, in which a failed check and the search that found the best are looked for.
constexpr std::int64_t kCheckedRuns = 200;

// The samples of the training of a run of this job; 0: not known.
std::int64_t samples_of(const storage::History& history, const std::string& run,
                        const Json& job_facts) {
  const auto row = history.run(run);
  if (!row) return 0;
  const auto recipe = recipes::Recipe::from_json(row->recipe);
  return recipe ? tuner::training_samples(*recipe, job_facts) : 0;
}

// The run that searched: one that only took a result over is stored with the best configuration, and names it.
std::string searcher_of(const storage::History& history, const std::string& run) {
  const auto row = history.run(run);
  if (!row) return run;
  return get_string(row->training, kSearchedBy).value_or(run);
}

// Settings that a run refused, and why, as a clause.
struct Refused {
  std::string why;
  Configuration settings;
};

// By the check after its training, and in it.
std::vector<Refused> refused_by(const storage::RunRow& run) {
  std::vector<Refused> refused;
  const Json& check = member(run.training, "check");
  auto settings = Configuration::from_json(member(check, "refused"));
  if (member(check, "passed") == false && settings && !settings->empty()) {
    refused.push_back(
        {"after the training of run " + run.id.text + " its check failed", *std::move(settings)});
  }
  for (Configuration& left_out : refused_in_training(run)) {
    refused.push_back({"the training of run " + run.id.text + " had to go on without an extension",
                       std::move(left_out)});
  }
  return refused;
}

bool contains(const Configuration& whole, const Configuration& part) {
  return whole.with(part) == whole;
}

// Newest first.
Result<std::vector<storage::RunRow>> runs_of_job(const storage::History& history,
                                                 const storage::RunRow& run) {
  return history.runs({.recipe = run.recipe_hash,
                       .environment = run.environment_key,
                       .plugin = {},
                       .verdict = {},
                       .since_unix_ns = {},
                       .limit = kCheckedRuns});
}

bool is_of_search(const storage::PluginAnswerRow& answer) {
  return answer.kind == storage::AnswerKind::asked;
}

bool is_same(const storage::PluginAnswerRow& asked, const std::string& name,
             const PluginIdentity& now) {
  return asked.plugin == name && asked.version == now.version && asked.sha256 == now.sha256;
}

// The plugins that the search which found `best` did not ask as they are now, or got no answer from. Empty if that
// search is no longer known. A run that only verified it has asked nobody: then the search is that of the newest run
// before that asked and came to its end.
Result<std::vector<std::string>> not_asked(const storage::History& history,
                                           const storage::RunRow& run, const storage::BestRow& best,
                                           const std::map<std::string, PluginIdentity>& plugins) {
  const auto runs = runs_of_job(history, run);
  if (!runs) return tl::unexpected(runs.error());
  auto row = std::ranges::find(*runs, best.run.text,
                               [](const storage::RunRow& one) { return one.id.text; });
  for (; row != runs->end(); ++row) {
    if (row->id.text != best.run.text && row->best.empty()) continue;
    const auto answers = history.plugin_answers(row->id);
    if (!answers) return tl::unexpected(answers.error());
    if (std::ranges::none_of(*answers, is_of_search)) continue;
    std::vector<std::string> missing;
    for (const auto& plugin : plugins) {
      const bool is_known = std::ranges::any_of(*answers, [&plugin](const auto& answer) {
        return is_of_search(answer) && is_same(answer, plugin.first, plugin.second) &&
               answer.is_answered && !answer.is_failure;
      });
      if (!is_known) missing.push_back(plugin.first);
    }
    return missing;
  }
  return std::vector<std::string>();
}

// Whether the trial turned a knob of an extension, and one of these plugins proposed it.
bool is_of_other_build(const TrialRecord& trial, const std::vector<std::string>& plugins,
                       const tuner::SessionInput& input) {
  return std::ranges::find(plugins, trial.plugin) != plugins.end() &&
         std::ranges::any_of(trial.change.values(), [&input](const auto& setting) {
           return tuner::is_of_extension(input, setting.first);
         });
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The settings that trainings and checks of trained models refused in runs of this job here. The newest check of the
// same settings counts.
Result<std::vector<Refused>> refused_here(const storage::History& history,
                                          const storage::RunRow& run) {
  auto runs = runs_of_job(history, run);
  if (!runs) return tl::unexpected(runs.error());
  std::vector<Refused> refused;
  std::vector<Configuration> passed;
  for (const storage::RunRow& row : *runs) {
    const Json& check = member(row.training, "check");
    if (member(check, "passed") == true) passed.push_back(trained_configuration(row));
    for (Refused& one : refused_by(row)) {
      const bool has_passed_since = std::ranges::any_of(
          passed, [&one](const Configuration& best) { return contains(best, one.settings); });
      if (!has_passed_since) refused.push_back(std::move(one));
    }
  }
  return refused;
}

}  // namespace

Result<std::vector<std::string>> best_environments(const storage::History& history,
                                                   const std::string& recipe_hash,
                                                   const Machine& machine) {
  const auto places = history.environments_with_best(recipe_hash);
  if (!places) return tl::unexpected(places.error());
  std::vector<std::string> environments;
  for (const storage::BestEnvironment& place : *places) {
    if (machine.key(place.libtorch) == place.environment_key) {
      environments.push_back(place.environment_key);
    }
  }
  return environments;
}

Result<std::optional<storage::BestRow>> find_best(const storage::History& history,
                                                  const std::string& recipe_hash,
                                                  const Machine& machine) {
  const auto environments = best_environments(history, recipe_hash, machine);
  if (!environments) return tl::unexpected(environments.error());
  for (const std::string& environment : *environments) {
    auto best = history.best(recipe_hash, environment);
    if (!best) return tl::unexpected(best.error());
    if (*best) return best;
  }
  return std::nullopt;
}

Result<std::string> add_known_best(const storage::History& history, const storage::RunRow& run,
                                   const std::map<std::string, PluginIdentity>& plugins,
                                   tuner::SessionInput& input) {
  if (run.is_retuned) return std::string();
  const auto refused = refused_here(history, run);
  if (!refused) return tl::unexpected(refused.error());
  std::string told;
  for (const Refused& one : *refused) {
    input.refused.push_back(one.settings);
    told += (told.empty() ? "" : "; ") + one.why + ": " + one.settings.canonical_text() +
            " is not tried again";
  }
  auto best = history.best(run.recipe_hash, run.environment_key);
  if (!best) return tl::unexpected(best.error());
  if (!*best) return told;
  auto decided = history.job_trials(run.environment_key, run.recipe_hash, kDecidedTrials, run.id);
  if (!decided) return tl::unexpected(decided.error());

  const std::string& found_by = (*best)->run.text;
  std::string why_on;
  const auto missing = not_asked(history, run, **best, plugins);
  if (!missing) return tl::unexpected(missing.error());
  if (!(*best)->is_complete) {
    why_on = "the search of run " + found_by + " did not try every proposal";
  } else if (!missing->empty()) {
    why_on = "the search of run " + found_by +
             " had no answer of these plugins as they are now: " + joined(*missing);
  }
  // The stored configuration may be older than the removal of a plugin.
  std::optional<Configuration> known = known_best(input.knobs, run.starting, (*best)->best);
  for (const Configuration& settings : input.refused) {
    if (known && contains(*known, settings)) known.reset();
  }
  const std::int64_t samples = tuner::training_samples(input.recipe, input.job_facts);
  if (known) {
    const Configuration whole = *known;
    known = tuner::without_unrepaid(whole, run.starting, *decided, samples);
    if (*known != whole) {
      why_on = "this training is too short to repay " + known->change_to(whole).canonical_text() +
               " of run " + found_by;
    } else if (samples > samples_of(history, found_by, input.job_facts) &&
               tuner::lacks_repaid(whole, *decided, samples)) {
      why_on = "run " + found_by + " trained less, and lacks what only a longer training repays";
    }
  }
  input.is_known_best_complete = why_on.empty();
  input.known_best_run = searcher_of(history, found_by);
  if (!why_on.empty()) {
    // Trials that were undecided for lack of time, or not repaid then but by this training, count as untried. So do
    // those of an extension that was built again: its code may do otherwise now.
    std::erase_if(*decided, [&](const TrialRecord& trial) {
      return trial.rejection == RejectionReason::undecided_in_time ||
             is_of_other_build(trial, *missing, input) ||
             (trial.rejection == RejectionReason::not_repaid &&
              tuner::repayment_of(trial, samples).is_repaid());
    });
    input.decided = *std::move(decided);
  }
  // A run that is continued has begun without it, or has verified it.
  if (!input.earlier.empty()) return std::string();
  // What is left of it was not measured as such.
  if (known && *known == (*best)->best) input.known_best_speedup = (*best)->speedup;
  input.known_best = std::move(known);
  if (why_on.empty()) return told;
  return (told.empty() ? told : told + "; ") + why_on + "; this one goes on with the search";
}

Result<std::string> keep_best(storage::History& history, const storage::RunRow& run,
                              const tuner::SessionOutcome& outcome, std::int64_t now_unix_ns) {
  const TrialRecord* const verification = tuner::verification_of(outcome.trials);
  const bool is_undecided = run.starting.change_to(outcome.best).empty() &&
                            verification != nullptr &&
                            verification->rejection == RejectionReason::undecided_in_time;
  // Where nothing was tried, nothing is known that was not known before.
  const bool is_tried = outcome.shortage.empty() || !outcome.trials.empty();
  if (outcome.is_searched && is_tried && !is_undecided) {
    return history
        .put_best({run.recipe_hash, run.environment_key, run.id, outcome.best, outcome.speedup,
                   now_unix_ns, outcome.is_complete})
        .map([] { return std::string(); });
  }
  const auto best = history.best(run.recipe_hash, run.environment_key);
  if (!best) return tl::unexpected(best.error());
  if (!*best || (*best)->best == outcome.best) return std::string();
  const std::string found_by = (*best)->run.text;
  if (!is_undecided) {
    return "run " + found_by +
           " found a faster configuration for this job: with a budget, a run verifies it and "
           "trains with it";
  }
  const std::string open = "whether the configuration that run " + found_by +
                           " found is still faster here: it stays stored, and the next run "
                           "verifies it again";
  if (verification->failure) {
    return "something disturbed this run when it measured " + open + " (" + verification->reason +
           ")";
  }
  return "this run had too little time to decide " + open + "; --budget gives it more time";
}

Result<void> refuse_best(storage::History& history, const storage::RunRow& run) {
  const std::vector<Refused> refused = refused_by(run);
  if (refused.empty()) return {};
  const auto best = history.best(run.recipe_hash, run.environment_key);
  if (!best) return tl::unexpected(best.error());
  const bool is_refused = *best && std::ranges::any_of(refused, [&best](const Refused& one) {
    return contains((*best)->best, one.settings);
  });
  if (!is_refused) return {};
  return history.forget_best(run.recipe_hash, run.environment_key).map([](bool) {});
}

}  // namespace autotuned::daemon
