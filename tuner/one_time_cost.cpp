// SPDX-License-Identifier: Apache-2.0
#include "tuner/one_time_cost.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "recipes/knobs.hpp"
#include "tuner/incumbent.hpp"

namespace autotuned::tuner {
namespace {

constexpr double kNsPerSecond = 1e9;
// A smaller difference is noise, such as that between two starts of the same processes.
constexpr double kMinNs = 1e6;
// Larger than any measured cost, and far below the range of 64 bits.
constexpr double kMaxNs = 1e18;

// Returns the share of the reference's time that the candidate saves.
double saved_share(double ratio) {
  return ratio > 1.0 ? 1.0 - 1.0 / ratio : 0.0;
}

bool is_charged_proposal(const TrialRecord& trial) {
  return trial.kind == TrialKind::proposal && trial.one_time_ns > 0;
}

}  // namespace

std::int64_t training_samples(const recipes::Recipe& recipe, const Json& job_facts) {
  // A script reports the rest of its training, if its variables show it.
  if (const auto left = get_integer(job_facts, "samples_left")) return *left;
  if (!recipe.train.epochs) {
    return recipe.train.steps.value_or(0) * recipe.train.batch_size * recipe.train.ranks;
  }
  return *recipe.train.epochs * get_integer(job_facts, "train_samples").value_or(0);
}

std::string one_time_work(const SessionInput& input, const Configuration& change) {
  std::string work;
  const auto add = [&work](const std::string& words) {
    work += (work.empty() ? "" : " and ") + words;
  };
  for (const auto& [name, value] : change.values()) {
    const auto knob = recipes::find_knob(input.knobs, name);
    if (knob && !knob->one_time_cost.empty()) {
      add(knob->one_time_cost);
    } else if (is_of_extension(input, name)) {
      add("switching on " + name);
    }
  }
  return work;
}

std::int64_t charged_ns(const OneTimeCost& seen, double reference_samples_per_second,
                        double ratio) {
  double first_visits_ns = 0.0;
  if (reference_samples_per_second > 0.0) {
    first_visits_ns =
        seen.samples / reference_samples_per_second * saved_share(ratio) * kNsPerSecond;
  }
  const double cost_ns = std::min(std::max(seen.ns, first_visits_ns), kMaxNs);
  return cost_ns < kMinNs ? 0 : static_cast<std::int64_t>(std::ceil(cost_ns));
}

std::int64_t known_one_time_ns(const std::vector<TrialRecord>& trials,
                               const Configuration& change) {
  std::vector<const TrialRecord*> parts;
  for (const TrialRecord& trial : trials) {
    if (is_charged_proposal(trial) && change.contains(trial.change)) parts.push_back(&trial);
  }
  std::ranges::stable_sort(parts, std::greater{}, &TrialRecord::one_time_ns);
  Configuration counted;
  std::int64_t total = 0;
  for (const TrialRecord* part : parts) {
    const bool is_counted = std::ranges::any_of(part->change.values(), [&](const auto& turned) {
      return counted.find(turned.first) != nullptr;
    });
    if (is_counted) continue;
    counted = counted.with(part->change);
    total += part->one_time_ns;
  }
  return total;
}

Repayment repayment_of(const TrialRecord& trial, std::int64_t samples) {
  const double rate = trial.reference_samples_per_second;
  if (samples <= 0 || !(rate > 0.0)) return {};
  const double training_s = static_cast<double>(samples) / rate;
  return {.cost_s = static_cast<double>(trial.one_time_ns) / kNsPerSecond,
          .saved_s = training_s * saved_share(trial.estimate.ratio),
          .training_s = training_s};
}

Configuration without_unrepaid(Configuration best, const Configuration& starting,
                               const std::vector<TrialRecord>& trials, std::int64_t samples) {
  for (const TrialRecord& trial : trials) {
    if (!is_charged_proposal(trial) || trial.verdict != Verdict::accepted) continue;
    if (!best.contains(trial.change)) continue;
    if (repayment_of(trial, samples).is_repaid()) continue;
    best = without_change(std::move(best), trial.change, starting);
  }
  return best;
}

bool lacks_repaid(const Configuration& best, const std::vector<TrialRecord>& trials,
                  std::int64_t samples) {
  return std::ranges::any_of(trials, [&](const TrialRecord& trial) {
    const bool is_repayable =
        trial.verdict == Verdict::accepted || trial.rejection == RejectionReason::not_repaid;
    return is_charged_proposal(trial) && is_repayable && !best.contains(trial.change) &&
           repayment_of(trial, samples).is_repaid();
  });
}

}  // namespace autotuned::tuner
