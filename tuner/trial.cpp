// SPDX-License-Identifier: Apache-2.0
#include "tuner/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.hpp"
#include "tuner/checks.hpp"
#include "tuner/one_time_cost.hpp"
#include "tuner/verdict.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;

// More pairs than any budget wants: the guard against a clock that stands still.
constexpr int kMaxPairs = 2000;
// Over the trials of a run that switch knobs live, and again over those that need processes.
constexpr double kRunError = 0.02;

// After the first look: on with fresh processes if it shows this share of the least gain worth having. Stopping
// here makes no false winner more likely.
constexpr double kPromisingShare = 0.5;
// Fresh pairs of processes after which one that does not even look like that is given up.
constexpr int kFewestToGiveUp = 3;
// A pair of processes has blocks until the standard error of its ratio is this small, for at most time_for_blocks().
constexpr double kWantedStandardError = 0.01;
constexpr int kFewestBlockPairs = 3;
constexpr int kFewestToKnow = 5;  // of three, two may agree by chance
constexpr int kMaxBlockPairs = 30;

// A gain from this ratio on is worth more than other uses of the time. Four times the fewest pairs show it although noise
// has turned a sign or two: after one early sign to the contrary about 20 pairs decide.
constexpr double kLargeGain = 1.3;
constexpr int kLargeGainPatience = 4;

// A reference below this share of its earlier rate is slowed: noise and the age of processes explain less.
constexpr double kSlowedShare = 0.8;

// Every trial has coins of its own, so that a resumed session does not repeat those of the first.
std::mt19937_64 coins_for(std::uint64_t seed, int trial_number) {
  std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U),
                         static_cast<std::uint32_t>(trial_number)};
  return std::mt19937_64(sequence);
}

std::string seconds_text(double duration_s) {
  constexpr double kMaxSeconds = 1e9;  // of what a duration can hold
  return format_duration(
      nanoseconds(static_cast<std::int64_t>(std::min(duration_s, kMaxSeconds) * 1e9)));
}

// The most time of a trial. `looked`: what its first look at a pair of processes has taken, which the planned time
// holds. After the trial a pair of blocks takes `pair_time`, and one of processes `process_pair_time` at least.
nanoseconds most_time_of(const TrialPlan& plan, nanoseconds looked, nanoseconds pair_time,
                         nanoseconds process_pair_time) {
  if (plan.pairs_afterwards == 0 && plan.process_pairs_afterwards == 0) return plan.most_time;
  const nanoseconds needed =
      plan.pairs_afterwards * pair_time + plan.process_pairs_afterwards * process_pair_time;
  return plan.most_time - looked - std::max(nanoseconds{0}, needed - plan.time_afterwards);
}

// Whether a trial goes on beyond its share, because the `rest` of its most time holds its own next pair, of
// `own_pair_time`, but not the next trial. A pair of blocks takes `pair_time`.
bool takes_rest(const TrialPlan& plan, nanoseconds rest, nanoseconds own_pair_time,
                nanoseconds pair_time) {
  return rest >= own_pair_time &&
         rest < std::max(plan.time_of_next_trial, plan.pairs_of_next_trial * pair_time);
}

// The most time for the blocks of a pair of processes that took `starting` to start. A trial that
// needs so many pairs, or as many as a verdict takes (`fewest`), has time for them, as far as half of
// what starting takes allows. Beyond twice of that, more processes tell more than more blocks.
nanoseconds time_for_blocks(nanoseconds most_time, nanoseconds starting, int fewest) {
  constexpr int kWantedProcessPairs = 10;
  return std::clamp(most_time / std::max(kWantedProcessPairs, fewest) - starting, starting / 2,
                    2 * starting);
}

double relative_half_width(const Estimate& estimate) {
  return (estimate.high - estimate.low) / (2.0 * estimate.ratio);
}

}  // namespace

double accept_error_probability_after(int tried) {
  const double k = tried + 1.0;
  return kRunError / (k * (k + 1.0));
}

// As many blocks as time_for_blocks() leaves where time is short.
nanoseconds least_process_pair_time(nanoseconds starting, nanoseconds pair_time) {
  return starting + std::max(starting / 2, kFewestBlockPairs * pair_time);
}

// The candidate may have taken its neighbour down: then `again` succeeded. Alone, the reference must run.
Result<void> TrialRunner::fail_by_reference(Course& course, const Error& error,
                                            const Result<void>& again) {
  if (!again && again.error().is_disturbance) {
    fail_trial(*course.trial, again.error(), "the reference failed twice");
    return {};
  }
  if (!again) {
    course.has_reference_fault = true;
    return forward_error(again);
  }
  fail_trial(*course.trial, error, "the reference failed beside the candidate");
  return {};
}

Result<void> TrialRunner::make_ready(Course& course, ProcessChoice process,
                                     bool is_candidate_first) {
  TrialRecord& trial = *course.trial;
  const Configuration candidate = trial.reference.with(trial.change);
  for (const bool is_first : {true, false}) {
    const bool is_candidate = is_first == is_candidate_first;
    const Configuration& configuration = is_candidate ? candidate : trial.reference;
    auto ready =
        backend_->make_ready(configuration, process, is_candidate ? &trial.reference : nullptr);
    if (ready) continue;
    if (ready.error().kind == ErrorKind::cancelled) return forward_error(ready);
    if (is_candidate) {
      fail_trial(trial, ready.error(), "");
      return {};
    }
    return fail_by_reference(course, ready.error(),
                             backend_->make_ready(configuration, ProcessChoice::alone, nullptr));
  }
  return {};
}

// One pair of blocks. The trial is over as well where it takes too much memory.
Result<void> TrialRunner::measure_pair(Course& course) {
  TrialRecord& trial = *course.trial;
  Measurement& measurement = course.measurement;
  const bool is_candidate_first = course.toss();
  const Configuration candidate = trial.reference.with(trial.change);
  PairRates rates;
  for (const bool is_first : {true, false}) {
    const bool is_candidate = is_first == is_candidate_first;
    const Configuration& configuration = is_candidate ? candidate : trial.reference;
    BlockRequest request = course.plan->block;
    request.reference = is_candidate ? &trial.reference : nullptr;
    auto block = backend_->run_block(configuration, request);
    if (!block && block.error().kind == ErrorKind::cancelled) return forward_error(block);
    if (!block && is_candidate) {
      fail_trial(trial, block.error(), "");
      return {};
    }
    if (!block) {
      const auto again = backend_->run_block(configuration, request);
      return fail_by_reference(course, block.error(),
                               again ? Result<void>{} : forward_error(again));
    }
    const double rate = block->samples_per_second();
    if (!(rate > 0.0) || !std::isfinite(rate)) {
      const Error error{.kind = ErrorKind::internal,
                        .what = fmt::format("a block of {} samples in {} ns has no rate",
                                            block->samples, block->duration_ns)};
      if (!is_candidate) {
        course.has_reference_fault = true;
        return tl::unexpected(error);
      }
      fail_trial(trial, error, "");
      return {};
    }
    (is_candidate ? rates.candidate : rates.reference) = rate;
    if (is_candidate) {
      const std::int64_t peak =
          is_on_gpu(*input_) ? block->peak_device_memory_bytes : block->peak_host_memory_bytes;
      trial.peak_memory_bytes = std::max(trial.peak_memory_bytes, peak);
    }
    measurement.add_total(is_candidate, *block);
    measurement.add_one_time(is_candidate, *block);
    if (!is_first) measurement.add(rates);
    const int pair = measurement.pairs() + (is_first ? 1 : 0);
    const TrialBlock measured{.pair = pair,
                              .is_candidate = is_candidate,
                              .is_first = is_first,
                              .block = std::move(*block),
                              .process_pair = std::max(1, measurement.process_pairs())};
    auto stored = ledger_->block_measured(trial, measured, measurement.estimate());
    if (!stored) return forward_error(stored);
  }
  const std::int64_t limit = memory_limit_bytes(*input_);
  if (limit > 0 && trial.peak_memory_bytes > limit) {
    reject_trial(trial, RejectionReason::memory_limit,
                 "it uses " + format_bytes(trial.peak_memory_bytes) + " of memory, the limit is " +
                     format_bytes(limit));
  }
  return {};
}

Result<void> TrialRunner::measure_in_one_process(Course& course) {
  const TrialPlan& plan = *course.plan;
  auto ready = make_ready(course, ProcessChoice::reuse, course.toss());
  if (!ready || course.is_over()) return ready;

  const Comparison& comparison = course.measurement.comparison();
  const int fewest = fastest_test(plan.rules.accept_error_probability).fewest_pairs;
  nanoseconds started{0};
  nanoseconds share = plan.time_share;
  std::optional<nanoseconds> accepted_at;
  for (int pair = 0; pair < kMaxPairs; ++pair) {
    auto measured = measure_pair(course);
    if (!measured || course.is_over()) return measured;
    const nanoseconds now = clock_->now();
    if (pair == 0) started = now;
    if (pair > 0) pair_time_ = (now - started) / pair;
    // Anew after each pair: an evaluation between two blocks makes later pairs longer than the first ones.
    const nanoseconds most_time = most_time_of(
        plan, nanoseconds{0}, pair_time_, least_process_pair_time(process_start_time_, pair_time_));
    if (pair > 0) share = std::max(share, std::min(most_time, fewest * pair_time_));
    if (course.measurement.is_faster(plan.is_watched_for_stalls)) {
      if (!accepted_at) accepted_at = now;
      if (relative_half_width(comparison.estimate()) <= plan.wanted_relative_half_width ||
          now - *accepted_at >= plan.extra_time || now - started >= plan.most_time_to_tighten) {
        break;
      }
      continue;
    }
    const Decision decision = course.measurement.decision();
    if (decision == Decision::reject) break;
    // The median shows a gain that may be true. The trial goes on for as many pairs as it takes to see rare stalls.
    if (decision == Decision::accept && plan.is_watched_for_stalls && pair > 0) {
      const int wanted = course.measurement.pairs_to_watch(comparison.plausible_ratio());
      share = std::max(share, std::min(most_time, wanted * pair_time_));
    }
    nanoseconds patience{0};
    if (pair + 1 >= kFewestToKnow && comparison.plausible_ratio() >= kLargeGain &&
        course.measurement.total_ratio() > 1.0) {
      patience = std::min(
          {most_time, plan.most_time_for_large_gain, kLargeGainPatience * fewest * pair_time_});
    }
    if (now - started >= std::max(share, patience) &&
        !takes_rest(plan, most_time - (now - course.begun), pair_time_, pair_time_)) {
      break;
    }
  }
  decide_trial(*course.trial, course.measurement, plan.is_watched_for_stalls, course.is_hopeless);
  return {};
}

// The trial is over also where the candidate does not look like a gain worth the time of fresh processes.
Result<void> TrialRunner::look_first(Course& course) {
  const nanoseconds before = clock_->now();
  // Both fresh: one that has run for long is several per cent faster than one that was just started.
  auto ready = make_ready(course, ProcessChoice::fresh, course.toss());
  if (!ready || course.is_over()) return ready;
  const nanoseconds started = clock_->now();
  course.starting = started - before;
  // This start and not the longest one so far, because processes of an earlier trial may have waited for another
  // session.
  process_start_time_ = std::max(2 * input_->start_time, course.starting);
  course.measurement.begin_process_pair(/*is_evidence=*/false);
  for (int pair = 0; pair < kFirstLookPairs; ++pair) {
    auto measured = measure_pair(course);
    if (!measured || course.is_over()) return measured;
    if (pair > 0) pair_time_ = (clock_->now() - started) / (pair + 1);
    if (course.measurement.estimate().high < 1.0) break;
  }
  const double promising = 1.0 + kPromisingShare * course.plan->rules.min_gain_ratio;
  course.is_hopeless = course.measurement.likely_ratio() < promising;
  if (course.is_hopeless) {
    decide_trial(*course.trial, course.measurement, course.plan->is_watched_for_stalls,
                 course.is_hopeless);
  }
  return {};
}

Result<void> TrialRunner::measure_processes(Course& course) {
  const TrialPlan& plan = *course.plan;
  const nanoseconds begun = clock_->now();
  if (plan.has_first_look) {
    auto done = look_first(course);
    if (!done || course.is_over()) return done;
  }
  const nanoseconds looked = clock_->now() - begun;
  const int fewest = fastest_test(plan.rules.accept_error_probability).fewest_pairs;
  nanoseconds most_time =
      most_time_of(plan, looked, pair_time_, least_process_pair_time(course.starting, pair_time_));
  if (plan.has_first_look) {
    // The time needed includes the blocks, of which there are three pairs at least. Without them a trial would begin
    // that cannot reach a verdict.
    const nanoseconds blocks = std::max(time_for_blocks(most_time, course.starting, fewest),
                                        kFewestBlockPairs * pair_time_);
    const nanoseconds needed = fewest * (course.starting + blocks);
    if (needed > most_time) {
      decide_trial(*course.trial, course.measurement, plan.is_watched_for_stalls, false);
      // The rest of the budget is kept for the confirmation.
      course.trial->reason += fmt::format(
          "; a verdict takes {} in fresh processes, and what is left of the budget beside the "
          "confirmation is too short",
          format_duration(needed));
      return {};
    }
  }
  const double promising = std::log1p(kPromisingShare * plan.rules.min_gain_ratio);
  const nanoseconds started = clock_->now();
  nanoseconds share = plan.time_share;
  nanoseconds spent_starting{0};
  for (int process_pair = 0; process_pair < kMaxPairs; ++process_pair) {
    const nanoseconds before = clock_->now();
    // The first is started in any case: what one takes may not be known.
    if (process_pair > 0) {
      // Rounded up: a share for so many pairs must hold so many of them.
      const nanoseconds process_pair_time = std::max(
          nanoseconds(1), (before - started + nanoseconds(process_pair - 1)) / process_pair);
      // Anew after each pair: those after the trial start no faster.
      most_time = most_time_of(plan, looked, pair_time_,
                               least_process_pair_time(process_start_time_, pair_time_));
      share = std::min(most_time, std::max(share, fewest * process_pair_time));
      if (before - started + process_pair_time > share &&
          !takes_rest(plan, most_time - (before - course.begun), process_pair_time, pair_time_)) {
        break;
      }
    }
    auto ready = make_ready(course, ProcessChoice::fresh, course.toss());
    if (!ready || course.is_over()) return ready;
    const nanoseconds starting = clock_->now() - before;
    spent_starting += starting;
    process_start_time_ = spent_starting / (process_pair + 1);
    const nanoseconds time_for_pairs =
        plan.time_for_processes > nanoseconds{0} ? plan.time_for_processes : most_time;
    course.measurement.begin_process_pair(/*is_evidence=*/true);
    const nanoseconds begin = clock_->now();
    for (int pair = 1; pair <= kMaxBlockPairs; ++pair) {
      auto measured = measure_pair(course);
      if (!measured || course.is_over()) return measured;
      const nanoseconds taken = clock_->now() - begin;
      pair_time_ = std::max(nanoseconds(1), taken / pair);
      if (pair < kFewestBlockPairs) continue;
      if (taken + pair_time_ > time_for_blocks(time_for_pairs, starting, fewest)) break;
      if (pair >= kFewestToKnow &&
          course.measurement.process_standard_error() <= kWantedStandardError) {
        break;
      }
    }
    course.measurement.end_process_pair();
    if (course.measurement.is_faster(plan.is_watched_for_stalls)) break;
    if (course.measurement.decision() == Decision::reject) break;
    if (plan.gives_up_early && course.measurement.observations() >= kFewestToGiveUp &&
        std::log(course.measurement.likely_ratio()) < promising) {
      course.is_hopeless = true;
      break;
    }
  }
  decide_trial(*course.trial, course.measurement, plan.is_watched_for_stalls, course.is_hopeless);
  return {};
}

Result<void> TrialRunner::measure(Course& course) {
  const TrialRecord& trial = *course.trial;
  return backend_->share_process(trial.reference, trial.reference.with(trial.change))
             ? measure_in_one_process(course)
             : measure_processes(course);
}

// The code of an extension has the rights of the user: it can reach the reference's process from outside. If the
// reference has an extension itself, that can tell which of two other configurations is timed.
void TrialRunner::doubt_reference(Course& course) const {
  TrialRecord& trial = *course.trial;
  const double before = course.plan->reference_rate_before;
  const bool is_of_extension =
      differ_in_extension(*input_, trial.reference, trial.reference.with(trial.change)) ||
      differ_in_extension(*input_, input_->starting, trial.reference);
  if (!is_of_extension || trial.verdict != Verdict::accepted ||
      trial.reference_samples_per_second >= kSlowedShare * before ||
      trial.candidate_samples_per_second > before) {
    return;
  }
  const Error slowed{
      .kind = ErrorKind::unsupported,
      .what = fmt::format(
          "the reference trained {:.1f} samples/s in this trial, and {:.1f} samples/s before it; "
          "something slows it, so a gain over it says nothing",
          trial.reference_samples_per_second, before),
      // Other work on the machine slows it as well.
      .is_disturbance = true};
  fail_trial(trial, slowed, "");
}

void TrialRunner::charge_one_time(Course& course) const {
  TrialRecord& trial = *course.trial;
  const std::string work = one_time_work(*input_, trial.change);
  if (work.empty() || trial.estimate.pairs == 0) return;
  trial.one_time_ns =
      std::max(course.plan->known_one_time_ns,
               charged_ns(course.measurement.one_time(), trial.reference_samples_per_second,
                          trial.estimate.ratio));
  // An ablation asks what a change gives that was charged before.
  if (trial.verdict != Verdict::accepted || trial.kind == TrialKind::ablation) return;
  const Repayment repayment =
      repayment_of(trial, training_samples(input_->recipe, input_->job_facts));
  if (repayment.is_repaid()) return;
  reject_trial(
      trial, RejectionReason::not_repaid,
      fmt::format("faster, but this training is too short for it: {} takes {}, and the change "
                  "saves {} of the {} that the training takes without it; {}",
                  work, seconds_text(repayment.cost_s), seconds_text(repayment.saved_s),
                  seconds_text(repayment.training_s), trial.reason));
}

Result<std::string> TrialRunner::check(TrialRecord& trial) {
  auto checks = run_checks(*input_, *backend_, trial.reference, trial.change);
  if (!checks) {
    if (checks.error().kind == ErrorKind::cancelled) return forward_error(checks);
    fail_trial(trial, checks.error(), "the check could not be made");
    return std::string();
  }
  for (const CheckRecord& record : *checks) {
    if (auto stored = ledger_->checked(trial, record); !stored) return forward_error(stored);
  }
  if (checks->empty()) return std::string();
  // A check that was done over as numerics leaves the last one to decide.
  const CheckRecord& last = checks->back();
  if (last.passed) return "; " + last.risk + " check: " + last.detail;
  trial.failed_check = last;
  const std::string measured = trial.reason.empty() ? "" : " (" + trial.reason + ")";
  reject_trial(trial, RejectionReason::not_same_model,
               "it does not train the same model: " + last.detail + measured);
  return std::string();
}

Result<void> TrialRunner::finish(TrialRecord& trial, nanoseconds started) {
  trial.duration_ns = (clock_->now() - started).count();
  return ledger_->trial_finished(trial);
}

Result<TrialRecord> TrialRunner::run(TrialRecord trial, const TrialPlan& plan) {
  const nanoseconds started = clock_->now();
  trial.started_unix_ns = clock_->unix_time_ns();
  trial.verdict = Verdict::running;
  if (auto stored = ledger_->trial_started(trial); !stored) return forward_error(stored);

  Course course(trial, plan, coins_for(input_->coin_seed, trial.number));
  course.begun = started;
  // Steps of a script cannot be undone, so a change that trains another model must not make a step.
  const bool is_checked_first = plan.is_checked && backend_->trains_for_real();
  std::string passed;
  Result<void> done;
  if (is_checked_first) {
    auto checked = check(trial);
    if (checked) passed = *std::move(checked);
    if (!checked) done = forward_error(checked);
  }
  if (done && !course.is_over()) done = measure(course);
  const Measurement& measurement = course.measurement;
  trial.estimate = measurement.estimate();
  trial.process_pairs = measurement.process_pairs();
  trial.total_ratio = measurement.total_ratio();
  trial.noise_ratio = measurement.noise_ratio();
  trial.candidate_samples_per_second = measurement.candidate_rate();
  trial.reference_samples_per_second = measurement.reference_rate();
  if (done) doubt_reference(course);
  if (done) charge_one_time(course);
  if (done && trial.verdict == Verdict::accepted && plan.is_checked && !is_checked_first) {
    auto checked = check(trial);
    if (checked) passed = *std::move(checked);
    if (!checked) done = forward_error(checked);
  }
  if (trial.verdict == Verdict::accepted) trial.reason += passed;

  if (!done && trial.kind == TrialKind::ablation && course.has_reference_fault &&
      done.error().kind != ErrorKind::cancelled) {
    // Without the change the job may not even run: that is what an ablation asks.
    fail_trial(trial, done.error(), "the final configuration does not run without this change");
    done = {};
  }
  if (!done && done.error().kind == ErrorKind::cancelled) {
    trial.verdict = Verdict::interrupted;
    trial.reason = "stopped while it ran";
  } else if (!done) {
    // The ledger or the reference failed: the history keeps a trial that never ended.
    return forward_error(done);
  }
  if (auto stored = finish(trial, started); !stored) return forward_error(stored);
  if (!done) return forward_error(done);
  return trial;
}

}  // namespace autotuned::tuner
