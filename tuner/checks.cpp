// SPDX-License-Identifier: Apache-2.0
#include "tuner/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tuner/situation.hpp"

namespace autotuned::tuner {
namespace {

using recipes::RiskClass;

constexpr double kLeastNormRatio = 0.8;
constexpr double kMostNormRatio = 1.25;
constexpr double kLeastCosine = 0.8;
constexpr double kOfOwnCosine = 2.0 / 3.0;
constexpr double kNegligibleNorm = 1e-3;  // of the largest reference update
constexpr double kNegligibleGrowth = 1e-2;
constexpr double kLossTolerance = 0.1;
constexpr double kLeastLossScale = 0.1;
constexpr std::size_t kMostNamedParameters = 100;
// Long enough for momentum that was lost to be missed by two thirds.
constexpr std::int64_t kCheckSteps = 8;

std::string with_steps(std::int64_t steps) {
  return steps == 1 ? "after 1 step" : fmt::format("after {} steps", steps);
}

// What is wrong with one parameter's update; nothing when it passes.
std::optional<std::string> parameter_fault(const UpdateComparison::Parameter& parameter,
                                           double largest_norm, double least_cosine) {
  const double candidate_norm =
      parameter.candidate_norm.value_or(parameter.norm_ratio * parameter.reference_norm);
  if (parameter.reference_norm < kNegligibleNorm * largest_norm) {
    if (!std::isfinite(candidate_norm)) {
      return fmt::format("{} hardly moves in the reference, and how far it moves here is not known",
                         parameter.name);
    }
    if (candidate_norm > kNegligibleGrowth * largest_norm) {
      return fmt::format(
          "{} hardly moves in the reference but by {:.1e} of the largest update here",
          parameter.name, candidate_norm / largest_norm);
    }
    if (parameter.reference_norm > 0.0 && !(parameter.norm_ratio > 0.0)) {
      return fmt::format("{} does not move", parameter.name);
    }
    return std::nullopt;
  }
  // Written so that NaN fails.
  if (!(parameter.norm_ratio >= kLeastNormRatio && parameter.norm_ratio <= kMostNormRatio)) {
    return fmt::format("the update of {} is {:.3f} times as long as the reference's (0.8 to 1.25)",
                       parameter.name, parameter.norm_ratio);
  }
  if (!(parameter.cosine >= least_cosine)) {
    return fmt::format(
        "the update of {} has a cosine of {:.3f} with the reference's (at least {:.2g})",
        parameter.name, parameter.cosine, least_cosine);
  }
  return std::nullopt;
}

std::optional<std::string> loss_fault(const UpdateComparison& updates) {
  if (updates.reference_losses.size() != updates.candidate_losses.size()) {
    return fmt::format("{} losses against {} of the reference", updates.candidate_losses.size(),
                       updates.reference_losses.size());
  }
  for (std::size_t i = 0; i < updates.reference_losses.size(); ++i) {
    const double reference = updates.reference_losses[i];
    const double candidate = updates.candidate_losses[i];
    const double scale = std::max(std::abs(reference), kLeastLossScale);
    if (!(std::abs(candidate - reference) <= kLossTolerance * scale)) {
      return fmt::format("the loss of step {} is {:.4g} against {:.4g} (within 10 %)", i + 1,
                         candidate, reference);
    }
  }
  return std::nullopt;
}

// Of each parameter, in order.
std::vector<double> least_cosines(const UpdateComparison& updates,
                                  const UpdateComparison* rounded) {
  std::vector<double> least(updates.parameters.size(), kLeastCosine);
  if (rounded == nullptr || rounded->parameters.size() != least.size()) return least;
  for (std::size_t i = 0; i < least.size(); ++i) {
    const double own = rounded->parameters[i].cosine;
    if (std::isfinite(own)) least[i] = std::min(kLeastCosine, kOfOwnCosine * std::max(0.0, own));
  }
  return least;
}

double largest_reference_norm(const UpdateComparison& updates) {
  double largest = 0.0;
  for (const auto& parameter : updates.parameters) {
    largest = std::max(largest, parameter.reference_norm);
  }
  return largest;
}

bool losses_are_finite(const std::vector<double>& losses) {
  return std::ranges::all_of(losses, [](double loss) { return std::isfinite(loss); });
}

// Batch size and learning rate before and after, in words.
std::string batch_rule(const SessionInput& input, const Configuration& incumbent,
                       const Configuration& candidate) {
  const KnobValue* before = incumbent.find("batch_size");
  const KnobValue* after = candidate.find("batch_size");
  if (before == nullptr || after == nullptr || *before == *after) return "permitted by the recipe";
  const std::int64_t from = std::get<std::int64_t>(*before);
  const std::int64_t to = std::get<std::int64_t>(*after);
  constexpr const char* kNames[] = {"none", "linear", "sqrt"};
  return fmt::format(
      "batch size {} instead of {}, learning rate {:.6g} instead of {:.6g} (rule: {})", to, from,
      input.recipe.learning_rate_at(to), input.recipe.learning_rate_at(from),
      kNames[static_cast<int>(input.recipe.tune.lr_scaling)]);
}

// The knobs of `change` that belong to a class.
Configuration part_of(const SessionInput& input, const Configuration& change, RiskClass risk) {
  Configuration part;
  for (const auto& [name, value] : change.values()) {
    Configuration single;
    single.set(name, value);
    if (recipes::risk_of(input.knobs, single) == risk) part.set(name, value);
  }
  return part;
}

// Two runs of one configuration may differ where the device's own algorithms do.
Result<bool> repeats_itself(const SessionInput& input, Job& job, const Configuration& incumbent) {
  if (!is_on_gpu(input) || input.recipe.deterministic) return true;
  auto again = job.compare_updates(incumbent, incumbent, kCheckSteps);
  if (!again) return tl::unexpected(again.error());
  return again->equal;
}

Result<CheckRecord> run_exact(const SessionInput& input, Job& job, const Configuration& incumbent,
                              const Configuration& change) {
  auto updates = job.compare_updates(incumbent, incumbent.with(change), kCheckSteps);
  if (!updates) return tl::unexpected(updates.error());
  CheckRecord check = check_equal(*updates);
  if (check.passed) return check;
  auto repeats = repeats_itself(input, job, incumbent);
  if (!repeats) return tl::unexpected(repeats.error());
  if (!*repeats) {
    // Bits cannot be asked for here; the losses and updates can.
    check = check_numerics(*updates);
    check.risk = recipes::to_string(RiskClass::exact);
    check.detail =
        "two runs of one configuration differ on this device, so updates were compared: " +
        check.detail;
  }
  return check;
}

Result<CheckRecord> run_numerics(const SessionInput& input, Job& job,
                                 const Configuration& candidate) {
  Configuration same_batch = candidate;
  if (const KnobValue* batch = input.starting.find("batch_size")) {
    same_batch.set("batch_size", *batch);
  }
  auto updates = job.compare_updates(input.starting, same_batch, 1);
  if (!updates) return tl::unexpected(updates.error());
  CheckRecord first = check_numerics(*updates);
  if (!first.passed) return first;
  updates = job.compare_updates(input.starting, same_batch, kCheckSteps);
  if (!updates) return tl::unexpected(updates.error());
  CheckRecord later = check_numerics(*updates);
  if (later.passed || !updates->finite) return later;
  // Is it the candidate that goes astray, or would the job by itself?
  auto rounded = job.compare_rounded(input.starting, kCheckSteps);
  if (!rounded) return tl::unexpected(rounded.error());
  return check_numerics(*updates, &*rounded);
}

}  // namespace

CheckRecord check_equal(const UpdateComparison& updates) {
  CheckRecord check{.risk = "exact", .passed = updates.equal, .steps = updates.steps};
  if (updates.equal) {
    check.detail = "all parameters and buffers are equal " + with_steps(updates.steps);
    return check;
  }
  const auto worst =
      std::ranges::min_element(updates.parameters, {}, &UpdateComparison::Parameter::cosine);
  check.detail = "parameters or buffers are not equal " + with_steps(updates.steps);
  if (worst != updates.parameters.end()) {
    check.detail += fmt::format("; lowest cosine {:.9f} ({})", worst->cosine, worst->name);
  }
  return check;
}

CheckRecord check_numerics(const UpdateComparison& updates, const UpdateComparison* rounded) {
  CheckRecord check{.risk = "numerics", .passed = false, .steps = updates.steps};
  if (!updates.finite || !losses_are_finite(updates.candidate_losses)) {
    check.detail = "NaN or infinity " + with_steps(updates.steps);
    return check;
  }
  const double largest = largest_reference_norm(updates);
  if (updates.parameters.empty() || !(largest > 0.0)) {
    check.detail = "the reference moves no parameter, so nothing can be compared";
    return check;
  }
  double least_ratio = kMostNormRatio;
  double most_ratio = kLeastNormRatio;
  double least_cosine = 1.0;
  std::size_t skipped = 0;
  check.compared = static_cast<std::int64_t>(updates.parameters.size());
  const std::vector<double> allowed = least_cosines(updates, rounded);
  double least_allowed = kLeastCosine;
  for (std::size_t i = 0; i < updates.parameters.size(); ++i) {
    const auto& parameter = updates.parameters[i];
    if (auto fault = parameter_fault(parameter, largest, allowed[i])) {
      if (check.failed++ == 0) check.detail = *fault + ", " + with_steps(updates.steps);
      if (check.parameters.size() < kMostNamedParameters) {
        check.parameters.push_back(parameter.name);
      }
      continue;
    }
    if (parameter.reference_norm < kNegligibleNorm * largest) {
      ++skipped;
      continue;
    }
    least_ratio = std::min(least_ratio, parameter.norm_ratio);
    most_ratio = std::max(most_ratio, parameter.norm_ratio);
    least_cosine = std::min(least_cosine, parameter.cosine);
    least_allowed = std::min(least_allowed, allowed[i]);
  }
  if (check.failed > 0) {
    check.detail += fmt::format("; {} of {} parameters fail", check.failed, check.compared);
    return check;
  }
  if (auto fault = loss_fault(updates)) {
    check.detail = *fault;
    return check;
  }
  check.passed = true;
  check.detail =
      fmt::format("{} of {} updates compared {}: norm ratios {:.3f} to {:.3f}, cosines from {:.4f}",
                  updates.parameters.size() - skipped, updates.parameters.size(),
                  with_steps(updates.steps), least_ratio, most_ratio, least_cosine);
  if (least_allowed < kLeastCosine) {
    check.detail += fmt::format(
        " (down to {:.2f} allowed, because the job turns its own updates as much when its start is "
        "rounded to 16 bits)",
        least_allowed);
  }
  return check;
}

CheckRecord check_semantics(const UpdateComparison& updates, const std::string& rule) {
  CheckRecord check{.risk = "semantics", .steps = updates.steps};
  check.passed = updates.finite && losses_are_finite(updates.candidate_losses);
  check.detail =
      rule + (check.passed ? "; finite " : "; NaN or infinity ") + with_steps(updates.steps);
  return check;
}

Result<std::vector<CheckRecord>> run_checks(const SessionInput& input, Job& job,
                                            const Configuration& incumbent,
                                            const Configuration& change) {
  std::vector<CheckRecord> checks;
  const auto keep = [&checks](Result<CheckRecord> check) -> Result<bool> {
    if (!check) return tl::unexpected(check.error());
    checks.push_back(std::move(*check));
    return checks.back().passed;
  };

  const Configuration exact = part_of(input, change, RiskClass::exact);
  bool needs_numerics = !part_of(input, change, RiskClass::numerics).empty();
  if (!exact.empty()) {
    auto passed = keep(run_exact(input, job, incumbent, exact));
    if (!passed) return tl::unexpected(passed.error());
    if (!*passed) {
      if (!input.recipe.allows(RiskClass::numerics, exact)) return checks;
      checks.back().detail += "; checked as numerics, which the recipe permits";
      needs_numerics = true;
    }
  }
  if (needs_numerics) {
    auto passed = keep(run_numerics(input, job, incumbent.with(change)));
    if (!passed) return tl::unexpected(passed.error());
    if (!*passed) return checks;
  }
  if (!part_of(input, change, RiskClass::semantics).empty()) {
    const Configuration candidate = incumbent.with(change);
    auto updates = job.compare_updates(candidate, candidate, kCheckSteps);
    if (!updates) return tl::unexpected(updates.error());
    keep(check_semantics(*updates, batch_rule(input, incumbent, candidate))).value();
  }
  return checks;
}

}  // namespace autotuned::tuner
