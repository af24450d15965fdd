// SPDX-License-Identifier: Apache-2.0
#include "tuner/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/text.hpp"
#include "tuner/checks.hpp"
#include "tuner/situation.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;

// More pairs than any budget wants: the guard against a clock that stands still.
constexpr int kMostPairs = 2000;

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

// Every trial has coins of its own, so that a resumed session does not repeat those of the first.
std::mt19937_64 coins_for(std::uint64_t seed, int trial_number) {
  std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U),
                         static_cast<std::uint32_t>(trial_number)};
  return std::mt19937_64(sequence);
}

double half_width_ratio(const Estimate& estimate) {
  return (estimate.high - estimate.low) / (2.0 * estimate.ratio);
}

std::string interval_text(const Estimate& estimate) {
  const std::string high =
      estimate.high < kNoUpperEnd ? fmt::format("{:.3f}", estimate.high) : "unknown";
  return fmt::format("{:.3f} times the rate ({:.3f} to {}) over {} pairs", estimate.ratio,
                     estimate.low, high, estimate.pairs);
}

void fail_trial(TrialRecord& trial, const Error& error, const std::string& context) {
  trial.verdict = Verdict::failed;
  trial.failure = error.kind;
  trial.reason = context.empty() ? error.message() : context + ": " + error.message();
}

}  // namespace

struct TrialRunner::Measurement {
  explicit Measurement(ComparisonRules rules) : comparison(rules) {}

  Comparison comparison;
  std::vector<double> candidate_rates;
  std::vector<double> reference_rates;
};

// One pair. False when the candidate failed: the trial then says how.
Result<bool> TrialRunner::measure_pair(TrialRecord& trial, const TrialPlan& plan,
                                       Measurement& measurement, bool is_candidate_first) {
  const Configuration candidate = trial.reference.with(trial.change);
  double candidate_rate = 0.0;
  double reference_rate = 0.0;
  for (const bool is_first : {true, false}) {
    const bool is_candidate = is_first == is_candidate_first;
    const Configuration& configuration = is_candidate ? candidate : trial.reference;
    auto block = job_->run_block(configuration, plan.block);
    if (!block && block.error().kind == ErrorKind::cancelled) return tl::unexpected(block.error());
    if (!block && is_candidate) {
      fail_trial(trial, block.error(), "");
      return false;
    }
    if (!block) {
      // The candidate may have taken its neighbour down. Alone, the reference must run.
      auto again = job_->run_block(configuration, plan.block);
      if (!again) return tl::unexpected(again.error());
      fail_trial(trial, block.error(), "the reference failed beside the candidate");
      return false;
    }
    const double rate = block->samples_per_second();
    if (!(rate > 0.0) || !std::isfinite(rate)) {
      const Error error{.kind = ErrorKind::internal,
                        .what = fmt::format("a block of {} samples in {} ns has no rate",
                                            block->samples, block->duration_ns)};
      if (!is_candidate) return tl::unexpected(error);
      fail_trial(trial, error, "");
      return false;
    }
    (is_candidate ? candidate_rate : reference_rate) = rate;
    if (is_candidate) {
      const std::int64_t peak =
          is_on_gpu(*input_) ? block->peak_device_memory_bytes : block->peak_host_memory_bytes;
      trial.peak_memory_bytes = std::max(trial.peak_memory_bytes, peak);
    }
    if (!is_first) {
      measurement.comparison.add(std::log(candidate_rate / reference_rate),
                                 std::log(candidate_rate * reference_rate) / 2.0);
      measurement.candidate_rates.push_back(candidate_rate);
      measurement.reference_rates.push_back(reference_rate);
    }
    const int pair = static_cast<int>(measurement.comparison.estimate().pairs) + (is_first ? 1 : 0);
    auto stored = ledger_->block_measured(trial, {pair, is_candidate, is_first, std::move(*block)},
                                          measurement.comparison.estimate());
    if (!stored) return tl::unexpected(stored.error());
  }
  return true;
}

Result<void> TrialRunner::measure(TrialRecord& trial, const TrialPlan& plan,
                                  Measurement& measurement) {
  std::mt19937_64 coins = coins_for(input_->coin_seed, trial.number);
  const Comparison& comparison = measurement.comparison;
  const std::int64_t memory_limit = memory_limit_bytes(*input_);
  const int fewest = fastest_test(plan.rules.accept_error_ratio).fewest_pairs;
  nanoseconds started{0};
  nanoseconds share = plan.time_share;
  nanoseconds accepted_at{0};
  bool is_accepted = false;
  for (int pair = 0; pair < kMostPairs; ++pair) {
    auto measured = measure_pair(trial, plan, measurement, (coins() & 1U) != 0);
    if (!measured) return tl::unexpected(measured.error());
    if (!*measured) return {};
    if (memory_limit > 0 && trial.peak_memory_bytes > memory_limit) {
      trial.verdict = Verdict::rejected;
      trial.reason = "it uses " + format_bytes(trial.peak_memory_bytes) +
                     " of memory, the limit is " + format_bytes(memory_limit);
      return {};
    }
    const nanoseconds now = clock_->now();
    if (pair == 0) started = now;
    if (pair > 0) pair_time_ = (now - started) / pair;
    if (pair == 1) share = std::max(share, std::min(plan.most_time, fewest * pair_time_));
    const Decision decision = comparison.decision();
    if (decision == Decision::reject && !is_accepted) break;
    if (decision == Decision::accept && !is_accepted) {
      is_accepted = true;
      accepted_at = now;
    }
    if (is_accepted && (half_width_ratio(comparison.estimate()) <= plan.wanted_half_width_ratio ||
                        now - accepted_at >= plan.extra_time)) {
      break;
    }
    if (!is_accepted && now - started >= share) break;
  }
  const Estimate& estimate = comparison.estimate();
  if (comparison.decision() == Decision::accept) {
    trial.verdict = Verdict::accepted;
    trial.reason = interval_text(estimate);
  } else {
    trial.verdict = Verdict::rejected;
    trial.reason = (estimate.high < 1.0                         ? "slower: "
                    : comparison.decision() == Decision::reject ? "no gain worth having: "
                                                                : "no gain shown in its time: ") +
                   interval_text(estimate);
  }
  return {};
}

Result<void> TrialRunner::check(TrialRecord& trial) {
  auto checks = run_checks(*input_, *job_, trial.reference, trial.change);
  if (!checks) {
    if (checks.error().kind == ErrorKind::cancelled) return tl::unexpected(checks.error());
    fail_trial(trial, checks.error(), "the check could not be made");
    return {};
  }
  for (const CheckRecord& record : *checks) {
    if (auto stored = ledger_->checked(trial, record); !stored) return stored;
  }
  if (checks->empty()) return {};
  // A check that was done over as numerics leaves the last one to decide.
  const CheckRecord& last = checks->back();
  if (last.passed) {
    trial.reason += "; " + last.risk + " check: " + last.detail;
  } else {
    trial.verdict = Verdict::rejected;
    trial.failed_check = last;
    trial.reason = "it does not train the same model: " + last.detail + " (" + trial.reason + ")";
  }
  return {};
}

Result<void> TrialRunner::finish(TrialRecord& trial, nanoseconds started) {
  trial.duration_ns = (clock_->now() - started).count();
  return ledger_->trial_finished(trial);
}

Result<TrialRecord> TrialRunner::run(TrialRecord trial, const TrialPlan& plan) {
  const nanoseconds started = clock_->now();
  trial.started_unix_ns = clock_->unix_time_ns();
  trial.verdict = Verdict::running;
  if (auto stored = ledger_->trial_started(trial); !stored) return tl::unexpected(stored.error());

  Measurement measurement(plan.rules);
  auto done = measure(trial, plan, measurement);
  trial.estimate = measurement.comparison.estimate();
  trial.noise_ratio = measurement.comparison.noise_ratio();
  trial.candidate_samples_per_second = median_of(measurement.candidate_rates);
  trial.reference_samples_per_second = median_of(measurement.reference_rates);
  if (done && trial.verdict == Verdict::accepted && plan.is_checked) done = check(trial);

  if (!done && done.error().kind == ErrorKind::cancelled) {
    trial.verdict = Verdict::interrupted;
    trial.reason = "stopped while it ran";
  } else if (!done) {
    // The ledger or the reference failed: whoever reads this later sees a trial that never ended.
    return tl::unexpected(done.error());
  }
  if (auto stored = finish(trial, started); !stored) return tl::unexpected(stored.error());
  if (!done) return tl::unexpected(done.error());
  return trial;
}

}  // namespace autotuned::tuner
