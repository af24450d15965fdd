// SPDX-License-Identifier: Apache-2.0
#include "tuner/proposals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "recipes/environment_variables.hpp"

namespace autotuned::tuner {
namespace {

using recipes::RiskClass;

// More expected of a change than when it lost: this many times the gain that was expected then.
constexpr double kGrownSignal = 1.5;
// A profile that shows more waiting than this speaks against a ceiling.
constexpr double kWaitAtCeiling = 0.02;
constexpr std::string_view kEnvironment = "env.";

bool is_supported(const std::string& name, const SessionInput& input) {
  // The environment is set when the trainer starts, whatever the trainer. That of a script stays as it is.
  return (name.starts_with(kEnvironment) && !input.is_script) ||
         std::ranges::find(input.supported_knobs, name) != input.supported_knobs.end();
}

std::optional<std::string> fault_of_value(const std::string& name, const KnobValue& value,
                                          const SessionInput& input) {
  const auto knob = recipes::find_knob(input.knobs, name);
  if (!knob) return "it proposed the unknown knob " + name;
  if (name.starts_with(kEnvironment) &&
      !recipes::is_variable_for_plugins(std::string_view(name).substr(kEnvironment.size()))) {
    return "it proposed " + name +
           ", which plugins may not set: docs/knobs.md lists those they may";
  }
  if (!is_supported(name, input)) {
    return "it proposed " + name +
           (input.is_script ? ", which cannot be changed in a script"
                            : ", which this trainer does not support");
  }
  if (auto checked = recipes::check_value(*knob, value); !checked) {
    return "it proposed " + name + "=" + to_text(value) + ": " + checked.error().what;
  }
  const std::int64_t* size = std::get_if<std::int64_t>(&value);
  if (name == "batch_size" && size != nullptr && *size > input.recipe.tune.batch_size_max) {
    return "it proposed a batch of " + to_text(value) + ", the recipe permits " +
           std::to_string(input.recipe.tune.batch_size_max);
  }
  return std::nullopt;
}

// The extension that brought a knob; empty for a knob of the program.
std::string_view extension_of(const std::string& knob, const SessionInput& input) {
  if (!is_of_extension(input, knob)) return {};
  return std::string_view(knob).substr(0, knob.find('.'));
}

bool turns(const Configuration& change, std::string_view extension, const SessionInput& input) {
  return std::ranges::any_of(change.values(), [&](const auto& entry) {
    return extension_of(entry.first, input) == extension;
  });
}

bool has_lost(const TrialRecord& trial) {
  return trial.kind == TrialKind::proposal &&
         (trial.verdict == Verdict::rejected || trial.verdict == Verdict::failed);
}

std::optional<std::string> fault_of(const Proposal& proposal, const SessionInput& input) {
  for (const auto& [name, value] : proposal.change.values()) {
    if (auto fault = fault_of_value(name, value, input)) return fault;
  }
  const RiskClass risk = recipes::risk_of(input.knobs, proposal.change);
  if (!input.recipe.allows(risk, proposal.change)) {
    return "it proposed " + proposal.change.canonical_text() + ", a change of class " +
           std::string(recipes::to_string(risk)) +
           (input.is_script ? " that --allow does not permit" : " that the recipe does not permit");
  }
  return std::nullopt;
}

std::optional<std::string> failed_extension(const Configuration& change, const SearchState& state) {
  for (const auto& [name, value] : change.values()) {
    const std::string_view extension = extension_of(name, state.input);
    if (extension.empty()) continue;
    for (const TrialRecord& trial : state.trials) {
      if (trial.kind != TrialKind::proposal || trial.verdict != Verdict::failed ||
          trial.failure == ErrorKind::out_of_memory ||
          !turns(trial.change, extension, state.input)) {
        continue;
      }
      return fmt::format("the extension {} is left out since trial {} failed: {}", extension,
                         trial.number, trial.reason);
    }
  }
  return std::nullopt;
}

// Which part of the input a knob is about: the place in kRungs of the lowest rung that frees the
// step of it.
struct Part {
  std::size_t rung = 0;
  bool is_transfer = false;  // and of nothing below
};

std::optional<Part> part_of(const std::string& name, const KnobValue& value) {
  constexpr std::size_t kReading = 0;
  constexpr std::size_t kMaking = 1;
  constexpr std::size_t kLoading = 2;
  constexpr std::size_t kTransfer = 3;
  if (name == "input.read_ahead" || (name == "input.cache" && to_text(value) == "raw")) {
    return Part{kReading};
  }
  if (name == "loader.pin_memory" || name == "transfer.non_blocking") return Part{kTransfer, true};
  if (name.starts_with("input.")) return Part{kMaking};
  if (name.starts_with("loader.")) return Part{kLoading};
  // Where samples travel as bytes they are made otherwise, too.
  if (name.starts_with("transfer.")) return Part{kTransfer};
  return std::nullopt;
}

struct Words {
  const char* about;
  const char* free;  // when the step is free of it
};
constexpr std::array<Words, kRungs.size()> kWords = {{
    {"reading", "with its files in memory"},
    {"making samples", "with ready samples in memory"},
    {"loading", "without any loading"},
    {"loading and transfer", "with its batches on the device"},
}};
constexpr Words kTransferWords = {"transfer",
                                  "with its batches on the device instead of on the host"};

std::optional<std::string> at_ceiling(const Configuration& change, const Ceiling& ceiling,
                                      const Json& metrics) {
  if (ceiling.rungs.empty() || change.values().empty()) return std::nullopt;
  Part part{.rung = 0, .is_transfer = true};
  for (const auto& [name, value] : change.values()) {
    const auto one = part_of(name, value);
    if (!one) return std::nullopt;
    part.rung = std::max(part.rung, one->rung);
    part.is_transfer = part.is_transfer && one->is_transfer;
  }
  // Where that rung was not measured, the next one that was frees the step of more.
  std::optional<double> ratio;
  std::size_t rung = part.rung;
  for (; rung < kRungs.size(); ++rung) {
    ratio = ceiling.likely_ratio_of(kRungs[rung]);
    if (ratio) break;
  }
  if (!ratio) return std::nullopt;

  const auto metric = [&](const char* name, double otherwise) {
    return get_number(metrics, name).value_or(otherwise);
  };
  // On a GPU a trace knows which waits hide behind kernels.
  const double waiting = metric("parts.data_loading_ratio", metric("step.data_wait_ratio", 0.0));
  Words words = kWords[rung];
  words.about = kWords[part.rung].about;
  double saved_ratio = rung == 0 ? waiting * metric("input.read_ratio", 1.0) : waiting;
  if (part.is_transfer) {
    words.about = kTransferWords.about;
    if (const auto below = ceiling.likely_ratio_of(kRungs[part.rung - 1])) {
      words = kTransferWords;
      *ratio /= *below;
      saved_ratio = metric("step.transfer_ratio", 0.0);
    }
  }
  if (*ratio > kAtCeiling || saved_ratio > kWaitAtCeiling) return std::nullopt;
  return fmt::format("{} speeds up {}: {} the job would be only {:.1f} % faster",
                     change.canonical_text(), words.about, words.free,
                     std::max(*ratio - 1.0, 0.0) * 100.0);
}

std::optional<std::string> below_min_gain(const Proposal& proposal, const SessionInput& input) {
  if (!proposal.signal_share_ratio || is_on_gpu(input)) return std::nullopt;
  const double share = *proposal.signal_share_ratio;
  const double least = input.recipe.tune.min_gain_ratio;
  if (share >= 1.0 || 1.0 / (1.0 - share) >= 1.0 + least) return std::nullopt;
  return fmt::format("{} can save at most {:.1f} % of the step, less than {} ({:.1f} %)",
                     proposal.change.canonical_text(), share * 100.0,
                     input.is_script ? "a change must give" : "tune.min_gain asks for",
                     least * 100.0);
}

std::string disturbed_text(const TrialRecord& trial) {
  return fmt::format("trial {} of {} was disturbed and decided nothing", trial.number,
                     trial.change.canonical_text());
}

std::optional<std::string> tried_before(const Proposal& proposal, const SearchState& state) {
  const Configuration target = state.incumbent.with(proposal.change);
  const std::string what = proposal.change.canonical_text();
  if (target == state.incumbent) return "the job already runs with " + what;
  if (std::ranges::find(state.past_incumbents, target) != state.past_incumbents.end()) {
    return what + " leads back to a configuration that an accepted change has replaced";
  }
  const Configuration change = state.incumbent.change_to(target);
  int losses = 0;
  double expected_then = 1.0;
  const TrialRecord* disturbed = nullptr;
  for (const std::vector<TrialRecord>* trials : {&state.input.decided, &state.trials}) {
    for (const TrialRecord& trial : *trials) {
      if (!has_lost(trial)) continue;
      if (trial.reference.with(trial.change) == target) {
        if (!was_disturbed(trial)) {
          return fmt::format("{} was tried already as trial {}", what, trial.number);
        }
        disturbed = &trial;
        continue;
      }
      if (trial.change != change) continue;
      ++losses;
      expected_then = std::max(expected_then, trial.expected_gain_ratio);
    }
  }
  if (disturbed != nullptr) return disturbed_text(*disturbed);
  if (losses == 0) return std::nullopt;
  if (losses > 1) return "two trials of " + what + " did not show a gain";
  const double grown = 1.0 + kGrownSignal * (expected_then - 1.0);
  if (proposal.expected_gain_ratio <= grown) {
    return "a trial of " + what +
           " did not show a gain, and its expected gain has not grown enough since";
  }
  return std::nullopt;
}

std::optional<std::string> refused_before(const Configuration& change, const SearchState& state) {
  const Configuration target = state.incumbent.with(change);
  for (const Configuration& refused : state.input.refused) {
    const bool is_there = state.incumbent.with(refused) == state.incumbent;
    if (is_there || target.with(refused) != target) continue;
    return "the check after an earlier training of this job failed with " +
           refused.canonical_text();
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> screen(const Proposal& proposal, const SearchState& state) {
  const auto skipped = [](std::string reason) {
    return Refusal{.is_fault = false, .reason = std::move(reason)};
  };
  const ProposalSource source = proposal.source;
  if (auto fault = fault_of(proposal, state.input)) {
    return Refusal{.is_fault = true, .reason = *std::move(fault)};
  }
  if (auto reason = refused_before(proposal.change, state)) return skipped(*std::move(reason));
  if (source == ProposalSource::remembered) return std::nullopt;
  if (auto reason = failed_extension(proposal.change, state)) return skipped(*std::move(reason));
  if (source == ProposalSource::undecided) return std::nullopt;
  if (auto reason = at_ceiling(proposal.change, state.ceiling, state.metrics)) {
    return skipped(*std::move(reason));
  }
  if (source == ProposalSource::near_miss) return std::nullopt;
  if (auto reason = below_min_gain(proposal, state.input)) return skipped(*std::move(reason));
  if (auto reason = tried_before(proposal, state)) return skipped(*std::move(reason));
  return std::nullopt;
}

std::optional<std::string> why_undecided(const std::string& plugin, const Configuration& incumbent,
                                         const std::vector<TrialRecord>& trials) {
  const TrialRecord* disturbed = nullptr;
  for (const TrialRecord& trial : trials) {
    if (trial.kind != TrialKind::proposal || trial.plugin != plugin ||
        trial.reference != incumbent) {
      continue;
    }
    if (was_disturbed(trial)) {
      disturbed = &trial;
    } else if (disturbed != nullptr && disturbed->change == trial.change) {
      disturbed = nullptr;
    }
  }
  if (disturbed == nullptr) return std::nullopt;
  return disturbed_text(*disturbed);
}

bool is_tried_before(const Proposal& a, const Proposal& b, const SessionInput& input) {
  const auto key = [&](const Proposal& proposal) {
    return std::tuple(-std::round(proposal.expected_gain_ratio * 100.0),
                      static_cast<int>(recipes::risk_of(input.knobs, proposal.change)),
                      recipes::needs_restart(input.knobs, proposal.change),
                      proposal.change.values().size(), proposal.plugin);
  };
  return key(a) < key(b);
}

}  // namespace autotuned::tuner
