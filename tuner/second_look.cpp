// SPDX-License-Identifier: Apache-2.0
#include "tuner/second_look.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace autotuned::tuner {
namespace {

// The product of two ratios that were measured separately says little about the joint change. Below this value the interaction is
// unlikely to make up for it.
constexpr double kWorthTrying = 0.7;
// The factor by which the rate must have grown since a change lost.
constexpr double kMovedRate = 1.1;

struct Interaction {
  std::string_view one;
  std::string_view other;
  std::string_view why;
};

constexpr std::array kInteractions = {
    Interaction{"batch_size", "threads.intra_op", "a larger batch gives each thread more to do"},
    Interaction{"loader.workers", "threads.intra_op", "both need the same CPUs"},
    Interaction{"loader.native_threads", "threads.intra_op", "both need the same CPUs"},
    Interaction{"batch_size", "precision.autocast", "16-bit units need more work at a time"},
    Interaction{"layout.memory_format", "precision.autocast",
                "16-bit kernels are made for one memory format"},
    Interaction{"batch_size", "layout.memory_format", "conversions weigh less in a larger batch"},
    Interaction{"batch_size", "memory.malloc",
                "larger blocks of memory are returned to the system sooner"},
};

const Interaction* interaction_of(std::string_view one, std::string_view other) {
  const auto* found = std::ranges::find_if(kInteractions, [&](const Interaction& known) {
    return (known.one == one && known.other == other) || (known.one == other && known.other == one);
  });
  return found == kInteractions.end() ? nullptr : found;
}

bool is_measured_proposal(const TrialRecord& trial, Verdict verdict) {
  return trial.kind == TrialKind::proposal && trial.verdict == verdict && trial.estimate.pairs > 0;
}

// A rejected trial with an interval above 1 was faster: it was rejected because it trains another model or uses too much memory.
bool has_lost_the_race(const TrialRecord& trial) {
  return is_measured_proposal(trial, Verdict::rejected) && trial.estimate.low <= 1.0;
}

bool is_undecided_against(const Configuration& incumbent, const TrialRecord& trial,
                          double min_gain_ratio) {
  const double wanted = 1.0 + min_gain_ratio;
  return has_lost_the_race(trial) && trial.reference == incumbent &&
         trial.estimate.ratio >= wanted && trial.estimate.high >= wanted;
}

struct Single {
  std::string knob;
  KnobValue value;
  double ratio = 1.0;
};

// Returns the values of knobs that lost, each with the ratio of its last trial.
std::vector<Single> lost_values(const std::vector<TrialRecord>& trials) {
  std::vector<Single> lost;
  for (const TrialRecord& trial : trials) {
    if (!has_lost_the_race(trial) || trial.change.values().size() != 1) continue;
    const auto& [knob, value] = *trial.change.values().begin();
    const Single now{knob, value, trial.estimate.ratio};
    std::erase_if(lost, [&](const Single& known) {
      return known.knob == now.knob && known.value == now.value;
    });
    lost.push_back(now);
  }
  return lost;
}

// Returns the values from before each accepted change of a single knob, with the expected ratio of going back.
std::vector<Single> values_before(const Configuration& incumbent,
                                  const std::vector<TrialRecord>& trials) {
  std::vector<Single> before;
  for (const TrialRecord& trial : trials) {
    if (!is_measured_proposal(trial, Verdict::accepted)) continue;
    if (trial.change.values().size() != 1) continue;
    const auto& [knob, value] = *trial.change.values().begin();
    const KnobValue* now = incumbent.find(knob);
    const KnobValue* then = trial.reference.find(knob);
    if (now == nullptr || then == nullptr || *now != value) continue;
    before.push_back({knob, *then, 1.0 / trial.estimate.ratio});
  }
  return before;
}

std::optional<Proposal> joint_change(const Single& one, const Single& other,
                                     const Configuration& incumbent) {
  const Interaction* known = interaction_of(one.knob, other.knob);
  const double product = one.ratio * other.ratio;
  if (known == nullptr || product < kWorthTrying) return std::nullopt;
  Configuration both;
  both.set(one.knob, one.value);
  both.set(other.knob, other.value);
  // If a knob has its value already, this is a change of one knob, which was tried.
  if (incumbent.change_to(incumbent.with(both)).values().size() != 2) return std::nullopt;
  return Proposal{.plugin = kOwnName,
                  .change = std::move(both),
                  .expected_gain_ratio = product,
                  .reason = fmt::format("each of them was tried alone, and they depend on each "
                                        "other: {}",
                                        known->why),
                  .source = ProposalSource::joint_change};
}

}  // namespace

bool is_refused(const TrialRecord& trial, std::int64_t memory_limit_bytes) {
  return trial.failed_check || trial.rejection == RejectionReason::not_repaid ||
         (memory_limit_bytes > 0 && trial.peak_memory_bytes > memory_limit_bytes);
}

std::vector<TrialRecord> without_refused(std::vector<TrialRecord> trials,
                                         std::int64_t memory_limit_bytes) {
  std::vector<Configuration> refused;
  for (const TrialRecord& trial : trials)
    if (is_refused(trial, memory_limit_bytes)) refused.push_back(trial.change);
  std::erase_if(trials, [&refused](const TrialRecord& trial) {
    return trial.verdict != Verdict::accepted &&
           std::ranges::find(refused, trial.change) != refused.end();
  });
  return trials;
}

std::vector<Proposal> undecided_changes(const Configuration& incumbent,
                                        const std::vector<TrialRecord>& trials,
                                        double min_gain_ratio) {
  std::vector<Proposal> changes;
  for (const TrialRecord& trial : trials) {
    const bool is_disturbed = trial.kind == TrialKind::proposal && was_disturbed(trial);
    const bool is_open = is_disturbed
                             ? incumbent.change_to(incumbent.with(trial.change)) == trial.change
                             : is_undecided_against(incumbent, trial, min_gain_ratio);
    if (!is_open) continue;
    const auto looks = std::ranges::count_if(trials, [&](const TrialRecord& other) {
      return other.kind == TrialKind::proposal && (is_disturbed || other.reference == incumbent) &&
             other.change == trial.change && other.verdict != Verdict::interrupted;
    });
    if (looks > 1) continue;
    changes.push_back(
        {.plugin = trial.plugin,
         .change = trial.change,
         .expected_gain_ratio = is_disturbed ? trial.expected_gain_ratio : trial.estimate.ratio,
         .reason = is_disturbed
                       ? fmt::format("trial {} was {}", trial.number, trial.reason)
                       : fmt::format("trial {} ended undecided: {:.3f} times the rate over {}",
                                     trial.number, trial.estimate.ratio,
                                     format_counted(trial.estimate.pairs, "pair")),
         .source = ProposalSource::undecided});
  }
  std::ranges::stable_sort(changes, std::greater{}, &Proposal::expected_gain_ratio);
  return changes;
}

std::vector<Proposal> near_misses_to_retry(const Configuration& incumbent,
                                           const std::vector<Configuration>& past_incumbents,
                                           const std::vector<TrialRecord>& trials,
                                           double min_gain_ratio) {
  std::vector<Proposal> changes;
  for (auto trial = trials.begin(); trial != trials.end(); ++trial) {
    const double within_noise = 1.0 - std::max(min_gain_ratio, trial->noise_ratio);
    if (!has_lost_the_race(*trial) || trial->reference == incumbent ||
        trial->estimate.ratio < within_noise || trial->estimate.high < 1.0 + min_gain_ratio) {
      continue;
    }
    const Configuration target = incumbent.with(trial->change);
    if (incumbent.change_to(target) != trial->change ||
        std::ranges::find(past_incumbents, target) != past_incumbents.end()) {
      continue;
    }
    const auto looks = std::ranges::count_if(trials, [&](const TrialRecord& other) {
      return other.kind == TrialKind::proposal && other.change == trial->change &&
             other.verdict != Verdict::interrupted;
    });
    if (looks > 1) continue;
    double grown = 1.0;
    for (auto later = std::next(trial); later != trials.end(); ++later) {
      if (is_measured_proposal(*later, Verdict::accepted)) grown *= later->estimate.ratio;
    }
    if (grown < kMovedRate) continue;
    changes.push_back(
        {.plugin = trial->plugin,
         .change = trial->change,
         .expected_gain_ratio = trial->estimate.ratio,
         .reason = fmt::format("trial {} found {:.3f} times the rate; since then the job became "
                               "{:.2f} times as fast, so the change saves a larger share of it",
                               trial->number, trial->estimate.ratio, grown),
         .source = ProposalSource::near_miss});
  }
  std::ranges::stable_sort(changes, std::greater{}, &Proposal::expected_gain_ratio);
  return changes;
}

std::vector<Proposal> joint_changes(const Configuration& incumbent,
                                    const std::vector<TrialRecord>& trials) {
  const std::vector<Single> lost = lost_values(trials);
  const std::vector<Single> before = values_before(incumbent, trials);
  std::vector<Proposal> changes;
  const auto add = [&](const Single& one, const Single& other) {
    if (auto change = joint_change(one, other, incumbent)) changes.push_back(std::move(*change));
  };
  for (std::size_t i = 0; i < lost.size(); ++i) {
    for (const Single& earlier : before)
      add(lost[i], earlier);
    for (std::size_t j = i + 1; j < lost.size(); ++j)
      add(lost[i], lost[j]);
  }
  std::ranges::stable_sort(changes, std::greater{}, &Proposal::expected_gain_ratio);
  return changes;
}

}  // namespace autotuned::tuner
