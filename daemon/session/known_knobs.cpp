// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/known_knobs.hpp"

#include <cstdint>
#include <utility>
#include <variant>

#include "daemon/report/report.hpp"
#include "daemon/report/training_fallback.hpp"

namespace autotuned::daemon {
namespace {

Configuration part(const std::vector<recipes::Knob>& knobs, const Configuration& configuration,
                   bool is_known) {
  Configuration result;
  for (const auto& [name, value] : configuration.values()) {
    if (recipes::find_knob(knobs, name).has_value() == is_known) result.set(name, value);
  }
  return result;
}

// A run goes on with the last of these configurations.
void drop_from_fallbacks(const std::vector<recipes::Knob>& knobs, storage::RunRow& run) {
  if (!member(run.training, kFallbacks).is_array()) return;
  for (Json& fallback : run.training[kFallbacks]) {
    const auto settings = Configuration::from_json(member(fallback, "configuration"));
    if (!settings || settings->empty()) continue;
    fallback["configuration"] = run.starting.with(known_part(knobs, *settings)).to_json();
  }
}

}  // namespace

Configuration known_part(const std::vector<recipes::Knob>& knobs,
                         const Configuration& configuration) {
  return part(knobs, configuration, true);
}

Configuration unknown_part(const std::vector<recipes::Knob>& knobs,
                           const Configuration& configuration) {
  return part(knobs, configuration, false);
}

std::optional<TrialRecord> known_trial(const std::vector<recipes::Knob>& knobs,
                                       const Configuration& starting, TrialRecord trial) {
  if (!unknown_part(knobs, trial.change).empty()) return std::nullopt;
  trial.reference = starting.with(known_part(knobs, trial.reference));
  return trial;
}

std::optional<Configuration> known_best(const std::vector<recipes::Knob>& knobs,
                                        const Configuration& starting, const Configuration& best) {
  Configuration known = starting.with(known_part(knobs, best));
  if (known == starting && !unknown_part(knobs, best).empty()) return std::nullopt;
  return known;
}

Result<void> check_values(const std::vector<recipes::Knob>& knobs,
                          const Configuration& configuration, const std::string& run,
                          const std::string& otherwise) {
  for (const auto& [name, value] : configuration.values()) {
    const auto knob = recipes::find_knob(knobs, name);
    if (!knob) continue;
    const auto fits = recipes::check_value(*knob, value);
    if (fits) continue;
    const std::string used = "run " + run + " uses the value " + to_text(value);
    const auto* const number = std::get_if<std::int64_t>(&value);
    const bool is_of_cpus = knob->unit == "threads" && number != nullptr && *number > knob->maximum;
    if (!is_of_cpus) {
      return fail(fits.error().kind,
                  used + ", which this machine cannot have: " + fits.error().what, name, otherwise);
    }
    return fail(ErrorKind::invalid,
                used + ", and with the CPUs that this command may use it can be at most " +
                    std::to_string(knob->maximum),
                name,
                "let the command use as many CPUs as that run did (taskset, the limits of a "
                "container and a job of Slurm take some away), or " +
                    otherwise);
  }
  return {};
}

std::vector<std::string> drop_unknown_knobs(const std::vector<recipes::Knob>& knobs,
                                            const recipes::Recipe& recipe,
                                            const std::vector<TrialRecord>& trials,
                                            storage::RunRow& run) {
  std::vector<std::string> told;
  const auto start = Configuration::from_json(member(run.recipe, "start"));
  const Configuration set = start ? unknown_part(knobs, *start) : Configuration();
  if (!set.empty()) {
    told.push_back("the start has " + set.canonical_text() +
                   ", whose knob has gone with its plugin: the run goes on without it");
  }
  const Configuration before = std::exchange(
      run.starting, recipe.starting_configuration(knobs).with(known_part(knobs, run.starting)));
  for (const TrialRecord& trial : trials) {
    const bool is_kept = trial.verdict == Verdict::accepted && trial.kind == TrialKind::proposal;
    if (!is_kept || unknown_part(knobs, trial.change).empty()) continue;
    told.push_back("trial " + std::to_string(trial.number) + ", " +
                   change_text(trial.reference, trial.change) +
                   ", no longer counts: its knob has gone with its plugin");
  }
  if (run.best.empty()) return told;
  const Configuration kept = unknown_part(knobs, before.change_to(run.best));
  if (!kept.empty()) {
    told.push_back("the kept change " + change_text(before, kept) +
                   " has gone with its plugin: the training goes on without it, and may be slower "
                   "than the run that found it");
  }
  run.best = run.starting.with(known_part(knobs, run.best));
  drop_from_fallbacks(knobs, run);
  return told;
}

}  // namespace autotuned::daemon
