// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/sequel.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/session/continued_run.hpp"
#include "daemon/session/known_knobs.hpp"
#include "daemon/session/output_folder.hpp"
#include "recipes/schedule.hpp"
#include "tuner/one_time_cost.hpp"

namespace autotuned::daemon {
namespace {

using storage::RunRow;
using storage::RunState;

constexpr const char* kRestart = "restart";

std::int64_t trained(const RunRow& run, const char* field) {
  return get_integer(run.training, field).value_or(0);
}

// "10 epochs", or "1,500 steps" where the last epoch is not whole.
std::string trained_text(const RunRow& run) {
  const std::int64_t steps = trained(run, "steps");
  const std::int64_t epochs = trained(run, "epochs");
  if (epochs > 0 && steps % epochs == 0) return format_counted(epochs, "epoch");
  return format_counted(steps, "step");
}

bool is_of(const RunRow& run, const recipes::Recipe& recipe) {
  const Json plan = parse_json(run.plan, "plan").value_or(Json::object());
  return !run.is_tune_only && run.output_dir == recipe.output_dir.string() &&
         member(plan, "seed") == Json(recipe.seed);
}

// Whether this is an interrupted sequel that the same command continues.
bool is_begun(const RunRow& run, const SessionRequest& request) {
  const std::string extends = extended_run(run);
  if (extends.empty()) return false;
  if (!request.continue_run.empty()) return run.id.text == request.continue_run;
  return run.state != RunState::finished && run.state != RunState::failed &&
         run.plan == plan_of(request.recipe, extends, request.extended_schedule);
}

// Epochs are whole ones, so that more of them are more steps, whatever their length.
bool is_longer(const recipes::TrainLength& length, const RunRow& base) {
  if (length.epochs) return *length.epochs > trained(base, "epochs");
  const Configuration used = trained_configuration(base);
  const std::int64_t batch_size =
      used.find("batch_size") != nullptr ? used.integer("batch_size") : length.batch_size;
  const std::int64_t samples = length.steps.value_or(0) * length.batch_size;
  return (samples + batch_size - 1) / batch_size > trained(base, "steps");
}

// "50 %" of the highest learning rate.
std::string share_text(double factor) {
  return std::to_string(std::lround(100.0 * factor)) + " %";
}

// How a schedule that depends on the length would go on.
std::string choices_text(const recipes::Recipe& recipe, const Json& job_facts, std::int64_t done,
                         std::int64_t whole) {
  const auto factor_at = [&](std::int64_t seen, std::int64_t samples) {
    const recipes::CourseLength length{.samples_per_epoch = std::max<std::int64_t>(
                                           get_integer(job_facts, "train_samples").value_or(1), 1),
                                       .samples = std::max<std::int64_t>(samples, 1),
                                       .samples_per_step = recipe.train.batch_size};
    return share_text(recipes::schedule_factor(recipe.schedule, seen, length));
  };
  return "it is at " + factor_at(done, done) +
         " of lr now. `--schedule stretch` takes the curve of the whole new length, which "
         "goes on at " +
         factor_at(done, whole) + "; `--schedule restart` begins the curve anew, at " +
         factor_at(0, whole - done) + ", for what is added";
}

// Whether the training ended where evaluate.patience of this recipe would end it again. Older runs do not tell.
bool would_end_again(const RunRow& base, const recipes::Recipe& recipe) {
  if (!recipe.evaluation || !recipe.evaluation->patience) return false;
  // Another figure is followed anew.
  const auto before = recipes::Recipe::from_json(base.recipe);
  if (before && before->evaluation && before->evaluation->best_by != recipe.evaluation->best_by)
    return false;
  return trained(base, "evaluations_since_best") >= *recipe.evaluation->patience;
}

Error no_training_error(const recipes::Recipe& recipe) {
  return {ErrorKind::not_found,
          "no finished training of this job with seed " + std::to_string(recipe.seed) +
              " has its results in the output folder",
          recipe.output_dir.string(),
          "without --extend the run trains from the start; only the length may have changed, and "
          "`history prune` may have removed the run"};
}

}  // namespace

Json Sequel::to_request() const {
  return {{"path", state.string()}, {"run", run}, {"restarts_schedule", schedule == kRestart}};
}

Result<void> check_place_of_sequel(const recipes::Recipe& recipe) {
  std::error_code ignored;
  if (std::filesystem::is_directory(recipe.output_dir, ignored)) return {};
  return tl::unexpected(no_training_error(recipe));
}

Result<Sequel> find_sequel(const storage::History& history, const SessionRequest& request,
                           const std::string& recipe_hash) {
  const recipes::Recipe& recipe = request.recipe;
  auto runs = history.runs({.recipe = recipe_hash,
                            .environment = {},
                            .plugin = {},
                            .verdict = {},
                            .since_unix_ns = {},
                            .limit = -1});
  if (!runs) return tl::unexpected(runs.error());
  Sequel sequel{.run = {},
                .state = recipe.output_dir / kTrainingState,
                .schedule = request.extended_schedule,
                .base = {}};
  for (RunRow& run : *runs) {
    if (run.recipe_hash != recipe_hash || !is_of(run, recipe)) continue;
    if (is_begun(run, request)) {
      sequel.run = extended_run(run);
      return sequel;
    }
    if (run.state != RunState::finished) continue;
    sequel.run = run.id.text;
    sequel.base = std::move(run);
    break;
  }
  if (!sequel.base) return tl::unexpected(no_training_error(recipe));
  if (!is_longer(recipe.train, *sequel.base)) {
    return fail(ErrorKind::invalid,
                "run " + sequel.run + " has trained " + trained_text(*sequel.base) +
                    ", and the recipe says no more",
                "train", "raise epochs or steps to the whole length that the training is to have");
  }
  std::error_code ignored;
  if (!std::filesystem::exists(sequel.state, ignored)) {
    return fail(ErrorKind::not_found, "the state at the end of run " + sequel.run + " is not there",
                sequel.state.string(),
                "it is kept unless the recipe says keep_state: false; without --extend the run "
                "trains from the start");
  }
  return sequel;
}

Result<void> check_patience_of(const Sequel& sequel, const recipes::Recipe& recipe) {
  if (!sequel.base || !would_end_again(*sequel.base, recipe)) return {};
  return fail(ErrorKind::invalid,
              "it ends the training of run " + sequel.run + " after " + trained_text(*sequel.base) +
                  ", and would end a longer one there, too",
              "evaluate.patience", "raise it, or leave it out");
}

Result<void> check_length_of_sequel(const storage::History& history, const SessionRequest& request,
                                    const std::string& recipe_hash) {
  const auto found = find_sequel(history, request, recipe_hash);
  if (found) return check_patience_of(*found, request.recipe);
  if (found.error().kind == ErrorKind::not_found) return {};
  return forward_error(found);
}

Result<void> check_schedule_of(const Sequel& sequel, const recipes::Recipe& recipe,
                               const Json& job_facts) {
  using recipes::LengthDependence;
  if (!sequel.base) return {};
  const LengthDependence depends = recipes::length_dependence(recipe.schedule);
  if (depends == LengthDependence::none) {
    if (sequel.schedule.empty()) return {};
    return fail(ErrorKind::invalid,
                "the schedule " + recipe.schedule.type + " does not depend on the length",
                "--schedule " + sequel.schedule, "leave it out");
  }
  if (!sequel.schedule.empty()) return {};
  const std::int64_t done = trained(*sequel.base, "samples");
  const std::int64_t whole = tuner::training_samples(recipe, job_facts);
  const Json plan = parse_json(sequel.base->plan, "plan").value_or(Json::object());
  const bool was_restarted = member(plan, "schedule") == kRestart;
  if (depends == LengthDependence::warmup && !was_restarted) {
    // Over, in the new length too: the rate goes on without a jump.
    const double share = get_number(recipe.schedule.parameters, "warmup_ratio").value_or(0.0);
    if (share * static_cast<double>(whole) <= static_cast<double>(done)) return {};
  }
  return fail(ErrorKind::invalid,
              "the learning rate of the schedule " + recipe.schedule.type +
                  " depends on the length of the training, and run " + sequel.run +
                  " has come to its end",
              "schedule", choices_text(recipe, job_facts, done, whole));
}

std::vector<std::string> take_over(const RunRow& base, const std::vector<recipes::Knob>& knobs,
                                   RunRow& run) {
  std::vector<std::string> told;
  run.state = RunState::training;
  const Configuration used = trained_configuration(base);
  run.best = run.starting.with(known_part(knobs, used));
  run.baseline_samples_per_second = base.baseline_samples_per_second;
  run.best_samples_per_second = base.best_samples_per_second;
  run.speedup = base.speedup;
  run.ceiling_samples_per_second = base.ceiling_samples_per_second;
  run.ceiling_bound_by = base.ceiling_bound_by;
  run.ceiling_ladder = base.ceiling_ladder;
  run.tuning_duration_ns = base.tuning_duration_ns;
  if (const Configuration gone = unknown_part(knobs, used); !gone.empty()) {
    told.push_back("the kept change " + change_text(base.starting, gone) + " of run " +
                   base.id.text + " has gone with its plugin: the training goes on without it");
  }
  if (used != base.best || !unknown_part(knobs, used).empty()) {
    // Without the rates the run counts as one that has not searched.
    run.baseline_samples_per_second = 0.0;
    run.best_samples_per_second = 0.0;
    run.speedup = {};
    run.ceiling_samples_per_second = 0.0;
    run.ceiling_bound_by.clear();
    run.ceiling_ladder = Json::array();
    told.push_back("what tuning measured in run " + base.id.text +
                   " is of another configuration than the one that trains now: this run tells no "
                   "speedup");
  }
  if (base.environment_key != run.environment_key) {
    told.push_back("run " + base.id.text +
                   " trained on another kind of machine, or with another LibTorch: what is added "
                   "may round differently");
  }
  return told;
}

bool cannot_begin(const Error& error, const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  const bool is_refused = error.kind == ErrorKind::invalid || error.kind == ErrorKind::corrupt ||
                          error.kind == ErrorKind::not_found;
  return is_refused && !std::filesystem::exists(checkpoint, ignored);
}

std::string sequel_text(const Sequel& sequel) {
  const std::string done = sequel.base ? " after " + trained_text(*sequel.base) : "";
  return "the training of run " + sequel.run + " goes on" + done +
         ", with the configuration of that run; its model stays until the new one is complete";
}

std::string faster_known_text(const std::optional<storage::BestRow>& best, const RunRow& base) {
  if (!best || best->speedup.pairs == 0 || best->best == trained_configuration(base)) return {};
  const double of_base = base.speedup.pairs > 0 ? base.speedup.ratio : 1.0;
  if (best->speedup.ratio <= of_base) return {};
  return "run " + best->run.text + " measured a faster configuration of this job, " +
         estimate_text(best->speedup) + ": " +
         change_text(base.starting, base.starting.change_to(best->best)) +
         ". --extend keeps the configuration that run " + base.id.text +
         " trained with, so that the training goes on as it began; a run without --extend verifies "
         "the faster one and trains from the start";
}

std::string extendable_text(const Sequel& sequel, const recipes::Recipe& recipe) {
  const bool is_over = would_end_again(*sequel.base, recipe);
  return "run " + sequel.run + " has trained " + trained_text(*sequel.base) +
         " of this job into the same folder" +
         (is_over ? ", where evaluate.patience ends it: raise it or leave it out, then "
                    "--extend goes on from its end"
                  : ": --extend goes on from its end") +
         "; this run trains from the start";
}

}  // namespace autotuned::daemon
