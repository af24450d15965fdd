// SPDX-License-Identifier: Apache-2.0
#include "tuner/verdict.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"

namespace autotuned::tuner {
namespace {

int decimals_of(const Estimate& estimate) {
  constexpr int kMinDecimals = 3;
  return ratio_decimals(estimate.low, estimate.high, kMinDecimals);
}

// "0.980 to 1.100". An end for which there are too few pairs is left out.
std::string ends_text(const Estimate& estimate) {
  const bool has_low = estimate.low > 0.0;
  const bool has_high = estimate.high < kNoUpperEnd;
  const int decimals = decimals_of(estimate);
  const auto end = [decimals](double value) { return fmt::format("{:.{}f}", value, decimals); };
  if (has_low && has_high) return end(estimate.low) + " to " + end(estimate.high);
  if (has_low) return "at least " + end(estimate.low);
  if (has_high) return "at most " + end(estimate.high);
  return "too few pairs for an interval";
}

std::string interval_text(const Measurement& measurement) {
  const Estimate estimate = measurement.estimate();
  std::string text =
      fmt::format("{:.{}f} times the rate ({}) over {}", estimate.ratio, decimals_of(estimate),
                  ends_text(estimate), format_counted(estimate.pairs, "pair"));
  const int processes = measurement.process_pairs();
  if (processes > 0) text += " in " + format_counted(processes, "pair") + " of processes";
  return text;
}

// The blocks of a first look may exclude a gain that the interval of the trial, which is wider to allow for other processes, does not.
bool excludes_gain(const Measurement& measurement) {
  const double least_ratio = 1.0 + measurement.comparison().rules().min_gain_ratio;
  return measurement.decision() == Decision::reject &&
         (measurement.estimate().high <= measurement.comparison().estimate().high ||
          measurement.estimate().high < least_ratio);
}

void reject_without_gain(TrialRecord& trial, const Measurement& measurement,
                         const std::string& interval) {
  const bool is_excluded = excludes_gain(measurement);
  reject_trial(trial, RejectionReason::no_gain,
               is_excluded ? "no gain worth having: " + interval
                           : fmt::format("{}: {}; {}", kGivenUpWords, interval, kGivenUpMeaning));
  trial.is_given_up = !is_excluded;
}

}  // namespace

void fail_trial(TrialRecord& trial, const Error& error, const std::string& context) {
  std::string reason = context.empty() ? error.message() : context + ": " + error.message();
  trial.failure = error.kind;
  if (error.is_disturbance) {
    reject_trial(trial, RejectionReason::undecided_in_time,
                 "undecided, because it was disturbed: " + reason);
    return;
  }
  trial.verdict = Verdict::failed;
  trial.reason = std::move(reason);
}

void reject_trial(TrialRecord& trial, RejectionReason rejection, std::string reason) {
  trial.verdict = Verdict::rejected;
  trial.rejection = rejection;
  trial.is_given_up = false;
  trial.reason = std::move(reason);
}

void decide_trial(TrialRecord& trial, const Measurement& measurement, bool is_watched_for_stalls,
                  bool is_hopeless) {
  const std::string interval = interval_text(measurement);
  const Decision decision = measurement.decision();
  if (measurement.is_faster(is_watched_for_stalls)) {
    trial.verdict = Verdict::accepted;
    trial.reason = interval;
  } else if (decision == Decision::accept && !measurement.do_totals_agree()) {
    reject_trial(
        trial, RejectionReason::totals,
        fmt::format("the median block is faster but all blocks together are {} ({:.1f} against "
                    "{:.1f} samples/s): rare stalls; {}",
                    measurement.total_ratio() < 1.0 ? "slower" : "hardly faster",
                    measurement.candidate_total_rate(), measurement.reference_total_rate(),
                    interval));
  } else if (decision == Decision::accept) {
    reject_trial(
        trial, RejectionReason::undecided_in_time,
        fmt::format("undecided in its time: {}; a gain this small needs {} pairs, since fewer can "
                    "miss rare stalls",
                    interval,
                    measurement.pairs_to_watch(measurement.comparison().plausible_ratio())));
  } else if (measurement.estimate().high < 1.0) {
    reject_trial(trial, RejectionReason::slower, "slower: " + interval);
  } else if (decision == Decision::reject || is_hopeless) {
    reject_without_gain(trial, measurement, interval);
  } else {
    reject_trial(trial, RejectionReason::undecided_in_time, "undecided in its time: " + interval);
  }
}

}  // namespace autotuned::tuner
