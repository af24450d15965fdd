// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/training_course.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/token_report.hpp"
#include "daemon/report/training_fallback.hpp"

namespace autotuned::daemon {
namespace {

// Training as slow as this is not what was measured.
constexpr double kSlowTrainingRatio = 0.7;
// Shorter trainings are mostly their first steps.
constexpr double kTellingTrainingNs = 10e9;

// How much other work there was while it trained and while it was tuned.
bool knows_other_work(const storage::RunRow& run) {
  return run.training.contains("other_work_ratio") &&
         run.training.contains("tuning_other_work_ratio");
}

// What disturbed the last process that trained, as far as it may be why the whole training is slower than what was measured. Not
// the load, where that of the tuning, or of the processes before, is not known or was no other. Where the load of both is
// known and differs, their shares are told instead.
std::vector<std::string> causes_of_slowness(const storage::RunRow& run) {
  const bool is_part = get_integer(run.training, "resumed_from_step").value_or(0) > 0;
  const bool is_load_told = !is_part && !knows_other_work(run);
  const Json& subjects = member(run.training, kDisturbanceSubjects);
  std::vector<std::string> causes;
  if (const std::string busier = busier_text(run); !busier.empty()) {
    causes.push_back(busier + ": rates of the two do not compare");
  }
  std::size_t at = 0;
  for (const Json& cause : member(run.training, "disturbances")) {
    const bool is_load = subjects.is_array() && at < subjects.size() && subjects[at] == "load";
    ++at;
    if (is_load && !is_load_told) continue;
    causes.push_back(cause.is_string() ? cause.get<std::string>() : cause.dump());
  }
  return causes;
}

// Why nothing is named as the cause.
std::string unknown_cause_text(const storage::RunRow& run) {
  const Json& seen = member(run.training, "disturbances");
  if (!seen.is_array() || seen.empty()) {
    return "and no load of other work was seen: measure again in longer blocks (--retune)";
  }
  // What was seen is load that causes_of_slowness() leaves out.
  if (knows_other_work(run)) {
    return "beside no more other work than while it was tuned: measure again in longer blocks "
           "(--retune)";
  }
  return "and other work is known only of the part since it went on";
}

// "38 %".
std::string reached_text(const storage::RunRow& run) {
  const double rate = trained_samples_per_second(run).value_or(0.0);
  return fmt::format("{:.0f} %", 100 * rate / run.best_samples_per_second);
}

}  // namespace

Json stop_of(const Json& answer, const Json& told) {
  return {{"steps", member(answer, "steps")},
          {"steps_total", member(told, "steps_total")},
          {"epochs", member(answer, "epochs")},
          {"epochs_total", member(told, "epochs_total")}};
}

Json failure_of(const Json& told) {
  const Json& step = member(told, "step");
  if (step.is_null()) return {};
  return {{"steps", step},
          {"steps_total", member(told, "steps_total")},
          {"epochs", nullptr},
          {"epochs_total", member(told, "epochs_total")},
          {"is_last_told", true}};
}

std::string stopped_text(const storage::RunRow& run) {
  using storage::RunState;
  const bool has_failed = !run.error.empty() && run.state != RunState::finished;
  if (run.state != RunState::cancelled && !has_failed) return {};
  const Json& stop = member(run.training, kStoppedAt);
  const auto steps = get_integer(stop, "steps");
  if (!steps) return {};
  const auto total = get_integer(stop, "steps_total");
  const bool is_last_told = get_bool(stop, "is_last_told").value_or(false);
  return (is_last_told ? "after step " : "at step ") + format_count(*steps) +
         (total ? " of " + format_count(*total) : "");
}

bool has_trained_slowly(const storage::RunRow& run) {
  const auto rate = trained_samples_per_second(run);
  const double duration_ns = get_number(run.training, "duration_ns").value_or(0.0);
  if (!rate || run.best_samples_per_second <= 0.0 || duration_ns < kTellingTrainingNs) return false;
  // With another configuration it was bound to be slower.
  if (!fallback_text(run).empty()) return false;
  if (*rate >= kSlowTrainingRatio * run.best_samples_per_second) return false;
  const bool has_low = run.speedup.pairs > 0 && run.speedup.low > 0.0;
  return !has_low || *rate < run.speedup.low * run.baseline_samples_per_second;
}

std::string slow_training_lines(const storage::RunRow& run) {
  if (!has_trained_slowly(run)) return {};
  std::string text = "slow     " + reached_text(run) + " of what tuning measured";
  const std::vector<std::string> causes = causes_of_slowness(run);
  if (causes.empty()) return text + ", " + unknown_cause_text(run) + "\n";
  for (const std::string& cause : causes)
    text += "\n         " + cause;
  return text + "\n";
}

std::string slow_training_warning(const storage::RunRow& run,
                                  const std::vector<std::string>& extensions) {
  const Configuration kept = run.starting.change_to(run.best);
  if (kept.empty() || !has_trained_slowly(run) || !busier_text(run).empty()) return {};
  std::string text = fmt::format(
      "the training reached {}, {} of the {} that tuning measured with {}: a change may be slower "
      "in a long training than in its trials; --retune measures again",
      run_rate_text(run, trained_samples_per_second(run).value_or(0.0)), reached_text(run),
      run_rate_text(run, run.best_samples_per_second), change_text(run.starting, kept));
  for (const std::string& name : extensions)
    text += ", --without " + printable(name) + " leaves plugin " + printable(name) + " out";
  return text;
}

}  // namespace autotuned::daemon
