// SPDX-License-Identifier: Apache-2.0
// What a tuning cost, and what repays it.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/story.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_end.hpp"
#include "daemon/report/tuning_time.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;

constexpr double kAsConfirmed = 0.98;  // of the rate in the confirmation

std::string count_text(double samples) {
  return format_count(static_cast<std::int64_t>(samples + 0.5));
}

std::string seconds_text(double seconds) {
  constexpr double kMaxSeconds = 3e9;  // a century: a trainer may say anything
  return format_duration(
      nanoseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, kMaxSeconds) * 1e9)));
}

std::string break_even_text(const storage::RunRow& run, const BreakEven& pays) {
  if (pays.samples <= 0.0) return "At the confirmed ratio it repays itself at once.\n";
  const std::string range = pays.samples_high ? "between " + count_text(pays.samples_low) +
                                                    " and " + count_text(*pays.samples_high)
                                              : "at least " + count_text(pays.samples_low);
  return fmt::format(
      "At the confirmed ratio it repays itself after {} {} ({}), which is {} of training.\n",
      count_text(pays.samples), unit_of(run), range, seconds_text(pays.seconds));
}

// When the tuning is repaid. It uses the rate of the training itself, which may differ from that of the confirmation.
std::string repaid(const storage::RunRow& run) {
  const auto savings = savings_of(run);
  if (!savings) return {};
  if (std::string busier = busier_text(run); !busier.empty()) {
    busier.front() = 'O';
    return busier + ": whether it has repaid the tuning cannot be told under such a load.\n";
  }
  std::string text = fmt::format(
      "This training had {} samples at {}. At the {} of the start they would have taken ",
      count_text(savings->samples), rate_text(savings->samples_per_second),
      rate_text(run.baseline_samples_per_second, unit_of(run)));
  text += savings->saved_s > 0.0 ? fmt::format("{} more", seconds_text(savings->saved_s))
                                 : fmt::format("{} less", seconds_text(-savings->saved_s));
  text +=
      savings->is_repaid
          ? ": it has repaid the tuning.\n"
          : ": it has not repaid the tuning yet; the next run of this job here starts from what "
            "was kept.\n";
  if (savings->samples_per_second < kAsConfirmed * run.best_samples_per_second) {
    text += fmt::format("It trained slower than in the confirmation, which measured {}.\n",
                        rate_text(run.best_samples_per_second, unit_of(run)));
  }
  return text;
}

// What stands in its place where the training left out what the ratio was measured with.
std::string unknown_repayment(const std::string& left_out, bool is_extension) {
  const std::string text =
      "The confirmed ratio was " + left_out + ", so it does not tell when the tuning is repaid.\n";
  if (is_extension) return text;
  return text + "The next run of this job here searches again without what was left out.\n";
}

// The steps of its tuning are steps of its training.
std::string script_cost(const storage::RunRow& run) {
  const auto cost_ns = get_integer(run.training, "tuning_cost_ns");
  if (!cost_ns) return {};
  const std::string steps = format_count(get_integer(run.training, "tuned_steps").value_or(0));
  const nanoseconds anyway(run.tuning_duration_ns - *cost_ns);
  return fmt::format(
      "The script made {} steps of its training meanwhile. At the rate of the start they would "
      "have taken {}{}.\n",
      steps, *cost_ns > 0 ? format_duration(anyway) : std::string("no less"),
      *cost_ns > 0 ? ", so the tuning cost " + format_duration(nanoseconds(*cost_ns))
                   : std::string(": the tuning cost nothing"));
}

// Whether a proposal was not decided, and no later trial decided about its change.
bool is_left_open(const TrialRecord& trial, const std::vector<TrialRecord>& trials) {
  if (trial.kind != TrialKind::proposal || !is_undecided(trial)) return false;
  return std::ranges::none_of(trials, [&trial](const TrialRecord& later) {
    const bool is_decided = later.verdict != Verdict::running &&
                            later.verdict != Verdict::interrupted && !is_undecided(later);
    return later.number > trial.number && later.kind == TrialKind::proposal &&
           later.change == trial.change && is_decided;
  });
}

// Why a run that keeps its start has not repaid its tuning, and what the next run makes of that.
std::string unrepaid(const Json& training, const std::vector<TrialRecord>& trials) {
  const std::string goes_on = "; the next run of this job here goes on with what was not tried.\n";
  if (training.contains(kShortage)) return "Its budget was too small for a trial" + goes_on;
  const std::string nothing = lacks_confirmation(trials) ? "Nothing was confirmed to be faster"
                                                         : "Nothing faster was found";
  if (has_untried(training)) return nothing + " in the budget" + goes_on;
  if (std::ranges::any_of(trials, is_undecided_whole)) {
    return nothing + "; the next run of this job here tries it again.\n";
  }
  if (std::ranges::any_of(
          trials, [&trials](const TrialRecord& trial) { return is_left_open(trial, trials); })) {
    return nothing + "; the next run of this job here may go on with what was not decided.\n";
  }
  return nothing + ", so it does not repay itself; the next run of this job here knows that.\n";
}

}  // namespace

std::string cost_text(const storage::RunRow& run, const std::vector<TrialRecord>& trials) {
  std::string text;
  const bool is_extension = !extended_run(run).empty();
  if (is_unsearched(run)) {
    text = is_extension                ? "Nothing: a run that extends a training does not tune.\n"
           : has_untried(run.training) ? "Nothing: no trial was begun.\n"
                                       : "Nothing: its budget was 0.\n";
  } else if (run.tuning_duration_ns <= 0) {
    return is_unconfirmed(run) ? "What the tuning cost is not known: it did not come to its end.\n"
                               : "The cost of tuning is not known yet.\n";
  } else {
    const bool is_stopped = run.best.empty() && !is_script(run.recipe);
    text = "Tuning took " + format_duration(nanoseconds(run.tuning_duration_ns)) +
           (is_extension ? ", in the run that began this training.\n"
            : is_stopped ? " before it was stopped.\n"
                         : ".\n");
    if (std::string overrun = overrun_text(run); !overrun.empty()) {
      overrun.front() = 'T';
      text += overrun + ".\n";
    }
    text += script_cost(run);
  }
  if (const std::string left_out = left_out_text(run); !left_out.empty()) {
    text += unknown_repayment(left_out, is_extension);
  } else if (const auto pays = break_even(run)) {
    text += break_even_text(run, *pays);
    text += repaid(run);
  } else if (!run.best.empty() && !is_unsearched(run) && !is_extension) {
    // Why the tuning of an extended run found nothing is not in the row of the extension.
    text += unrepaid(run.training, trials);
  }
  if (const auto duration_ns = get_number(run.training, "duration_ns")) {
    text += fmt::format("Training took {}.\n",
                        format_duration(nanoseconds(static_cast<std::int64_t>(*duration_ns))));
  }
  if (const std::string fallback = fallback_text(run); !fallback.empty()) {
    text += "Warning: " + fallback + ".\n";
  }
  if (const std::string check = trained_check_text(run); !check.empty()) {
    text += (has_failed_check(run) ? "Warning: " : "Note: ") + check + ".\n";
  }
  return text;
}

}  // namespace autotuned::daemon
