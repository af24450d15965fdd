// SPDX-License-Identifier: Apache-2.0
// Compares updates with the limits of the checks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/statistics.hpp"
#include "tuner/check_limits.hpp"
#include "tuner/checks.hpp"

namespace autotuned::tuner {
namespace {

// The limits that checks.hpp explains. kOfOwn…: factors of the deviation that rounding the start causes in the job itself.
constexpr double kNegligibleGrowth = 1e-2;
constexpr double kOfOwnLoss = 1.5;
constexpr double kMaxOwnLossShare = 0.9;
constexpr double kOfOwnReachedLoss = 3.0;
constexpr std::size_t kMaxNamedParameters = 100;
constexpr double kMaxOutputShare = 0.5;
constexpr double kOfOwnOutputShare = 1.5;
constexpr double kMaxOwnOutputShare = 0.9;
constexpr double kOfOwnReachedOutputShare = 4.0;
constexpr double kOfOwnDistance = 3.0;
constexpr double kRounding = 1e-6;
constexpr double kMaxIdleShare = 1e-3;
constexpr double kIdleRounding = 2.5e-7;  // share of the parameter: two units in the last place

std::string with_steps(std::int64_t steps) {
  return steps == 1 ? "after 1 step" : fmt::format("after {} steps", steps);
}

// Returns what is wrong with the update of one parameter; nothing if it passes.
std::optional<std::string> parameter_fault(const UpdateComparison::Parameter& parameter,
                                           double largest_norm, const UpdateLimits& limits) {
  const double candidate_norm =
      parameter.candidate_norm.value_or(parameter.norm_ratio * parameter.reference_norm);
  if (parameter.reference_norm < kNegligibleNorm * largest_norm) {
    if (!std::isfinite(candidate_norm)) {
      return fmt::format("{} hardly moves in the reference, and how far it moves here is not known",
                         parameter.name);
    }
    if (candidate_norm > kNegligibleGrowth * largest_norm) {
      return fmt::format(
          "{} hardly moves in the reference, but by {:.1e} of the largest update here",
          parameter.name, candidate_norm / largest_norm);
    }
    if (parameter.reference_norm > 0.0 && !(parameter.norm_ratio > 0.0)) {
      return fmt::format("{} does not move", parameter.name);
    }
    return std::nullopt;
  }
  // The conditions are written so that NaN fails.
  const double most = limits.most_norm_ratio();
  if (!(parameter.norm_ratio >= limits.least_norm_ratio && parameter.norm_ratio <= most)) {
    return fmt::format(
        "the update of {} is {:.3f} times as long as the reference's ({:.2g} to {:.3g})",
        parameter.name, parameter.norm_ratio, limits.least_norm_ratio, most);
  }
  if (!(parameter.cosine >= limits.least_cosine)) {
    return fmt::format(
        "the update of {} has a cosine of {:.3f} with the reference's (at least {:.2g})",
        parameter.name, parameter.cosine, limits.least_cosine);
  }
  return std::nullopt;
}

// Returns the largest change of a loss that rounding the start alone causes; 0 if it is not known.
double own_loss_difference(const UpdateComparison* rounded) {
  double largest = 0.0;
  if (rounded == nullptr) return largest;
  const std::size_t steps =
      std::min(rounded->reference_losses.size(), rounded->candidate_losses.size());
  for (std::size_t i = 0; i < steps; ++i) {
    const double apart = std::abs(rounded->candidate_losses[i] - rounded->reference_losses[i]);
    if (std::isfinite(apart)) largest = std::max(largest, apart);
  }
  return largest;
}

// Returns the largest magnitude of a loss. A single loss may be near 0.
double largest_of(const std::vector<double>& losses) {
  double largest = 0.0;
  for (const double loss : losses)
    if (std::isfinite(loss)) largest = std::max(largest, std::abs(loss));
  return largest;
}

// The limit of the distance between the loss of a step and that of the reference.
class LossLimit {
 public:
  // REQUIRES: the reference has a loss.
  LossLimit(const UpdateComparison& updates, const UpdateComparison* rounded, Stage stage,
            LossKind kind)
      : kind_(kind),
        stage_(stage),
        largest_(largest_of(updates.reference_losses)),
        own_(kind == LossKind::other ? own_loss_difference(rounded) : 0.0) {}

  [[nodiscard]] double of(double reference) const {
    if (kind_ == LossKind::cross_entropy) {
      return kLossTolerance * std::max(std::abs(reference), kMinLossScale);
    }
    // The scale of such a loss is that of its targets, so no number is small for all jobs.
    const double scale = std::max({std::abs(reference), largest_, kMinOtherLossScale});
    const double least = kLossTolerance * scale;
    return stage_ == Stage::reached
               ? std::max(least, kOfOwnReachedLoss * own_)
               : std::clamp(kOfOwnLoss * own_, least, kMaxOwnLossShare * scale);
  }

 private:
  LossKind kind_;
  Stage stage_;
  double largest_;
  double own_;
};

std::optional<std::string> loss_fault(const UpdateComparison& updates,
                                      const UpdateComparison* rounded, Stage stage, LossKind kind) {
  if (updates.reference_losses.size() != updates.candidate_losses.size()) {
    return fmt::format("{} losses against {} of the reference", updates.candidate_losses.size(),
                       updates.reference_losses.size());
  }
  if (updates.reference_losses.empty()) return std::nullopt;
  const LossLimit limit(updates, rounded, stage, kind);
  for (std::size_t i = 0; i < updates.reference_losses.size(); ++i) {
    const double reference = updates.reference_losses[i];
    const double candidate = updates.candidate_losses[i];
    const double most = limit.of(reference);
    if (std::abs(candidate - reference) <= most) continue;  // NaN is a fault
    return fmt::format("the loss of step {} is {:.4g} against {:.4g} (at most {:.2g} apart)", i + 1,
                       candidate, reference, most);
  }
  return std::nullopt;
}

// Buffers are statistics, such as those of a batch normalisation. Small ones matter, too, so each is compared with its own reference.
std::optional<std::string> buffer_fault(const UpdateComparison& updates,
                                        const UpdateComparison* rounded, Stage stage) {
  double largest = 0.0;
  for (const auto& buffer : updates.buffers) {
    if (buffer.is_floating) largest = std::max(largest, buffer.update.reference_norm);
  }
  for (std::size_t i = 0; i < updates.buffers.size(); ++i) {
    const auto& buffer = updates.buffers[i];
    if (buffer.is_equal) continue;
    if (!buffer.is_floating || buffer.update.reference_norm == 0.0) {
      return fmt::format("the buffer {} has other values than in the reference",
                         buffer.update.name);
    }
    const bool has_own = rounded != nullptr && i < rounded->buffers.size();
    const UpdateLimits limits =
        has_own ? limits_beside(rounded->buffers[i].update, stage) : UpdateLimits();
    if (auto fault = parameter_fault(buffer.update, largest, limits)) {
      return "buffers: " + *fault;
    }
  }
  return std::nullopt;
}

std::optional<std::string> output_fault(const UpdateComparison& updates,
                                        const UpdateComparison* rounded, Stage stage) {
  if (!updates.outputs) return std::nullopt;
  double most = kMaxOutputShare;
  if (rounded != nullptr && rounded->outputs) {
    const double own = output_share(*rounded->outputs);
    if (std::isfinite(own)) {
      most = stage == Stage::reached
                 ? std::max(most, kOfOwnReachedOutputShare * own)
                 : std::clamp(kOfOwnOutputShare * own, most, kMaxOwnOutputShare);
    }
  }
  const double share = output_share(*updates.outputs);
  if (share <= most) return std::nullopt;
  return fmt::format(
      "in evaluation mode the outputs for a few batches differ from the reference's by {:.2f} of "
      "the change that the steps made (at most {:.2f})",
      share, most);
}

// Compares what the optimizers do without gradients. Nothing amplifies rounding there, so the limits are narrow.
std::optional<std::string> idle_fault(const UpdateComparison& updates) {
  for (const UpdateComparison::Idle& one : updates.idle) {
    const double most = kMaxIdleShare * one.reference_norm + kIdleRounding * one.parameter_norm;
    if (one.difference <= most) continue;  // NaN is a fault
    return fmt::format(
        "weight decay or momentum of {} is not that of the reference: a step without gradients "
        "moves it otherwise by {:.2g} (at most {:.2g}; the reference moves it by {:.2g})",
        one.name, one.difference, most, one.reference_norm);
  }
  return std::nullopt;
}

// Returns why steps from a state late in a training cannot be compared; nothing if they can.
std::optional<std::string> why_not_comparable(const UpdateComparison& updates) {
  if (!is_reference_finite(updates)) {
    return "the reference itself reaches NaN or infinity";
  }
  if (!(largest_reference_norm(updates) > 0.0)) return "the reference moves no parameter";
  return std::nullopt;
}

CheckRecord numerics(const UpdateComparison& updates, const UpdateComparison* rounded, Stage stage,
                     LossKind loss, Leeway leeway) {
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
  if (auto fault = input_fault(updates, /*is_exact=*/false)) {
    check.detail = *fault;
    return check;
  }
  double least_ratio = kMaxNormRatio;
  double most_ratio = kMinNormRatio;
  double least_cosine = 1.0;
  std::size_t skipped = 0;
  check.compared = static_cast<std::int64_t>(updates.parameters.size());
  const std::vector<UpdateLimits> allowed = parameter_limits(updates, rounded, stage, leeway);
  double least_allowed = kMinCosine;
  for (std::size_t i = 0; i < updates.parameters.size(); ++i) {
    const auto& parameter = updates.parameters[i];
    if (auto fault = parameter_fault(parameter, largest, allowed[i])) {
      if (check.failed++ == 0) check.detail = *fault + ", " + with_steps(updates.steps);
      if (check.parameters.size() < kMaxNamedParameters) {
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
    least_allowed = std::min(least_allowed, allowed[i].least_cosine);
  }
  if (check.failed > 0) {
    check.detail += fmt::format("; {} of {} parameters fail", check.failed, check.compared);
    return check;
  }
  auto fault = idle_fault(updates);
  if (fault) {
    check.detail = *fault;
    return check;
  }
  fault = buffer_fault(updates, rounded, stage);
  if (!fault) fault = output_fault(updates, rounded, stage);
  if (fault) {
    check.detail = *fault + ", " + with_steps(updates.steps);
    return check;
  }
  fault = loss_fault(updates, rounded, stage, loss);
  if (!fault) fault = test_fault(updates, test_limits(updates, rounded, loss));
  if (fault) {
    check.detail = *fault;
    return check;
  }
  check.passed = true;
  check.detail =
      fmt::format("{} of {} updates compared {}: norm ratios {:.3f} to {:.3f}, cosines from {:.4f}",
                  updates.parameters.size() - skipped, updates.parameters.size(),
                  with_steps(updates.steps), least_ratio, most_ratio, least_cosine);
  if (updates.outputs) {
    check.detail += fmt::format("; outputs in evaluation mode differ by {:.2g} of their change",
                                output_share(*updates.outputs));
  }
  if (least_allowed < kMinCosine) {
    check.detail += fmt::format(
        " (cosines down to {:.2f} allowed: rounding the start to 16 bits changes the job's own "
        "updates as much)",
        least_allowed);
  }
  return check;
}

}  // namespace

CheckRecord check_equal(const UpdateComparison& updates) {
  CheckRecord check{.risk = "exact", .passed = false, .steps = updates.steps};
  if (auto fault = input_fault(updates, /*is_exact=*/true)) {
    check.detail = *fault;
    return check;
  }
  if (updates.equal && !updates.parameters.empty() && !(largest_reference_norm(updates) > 0.0)) {
    check.detail =
        "no parameter moves " + with_steps(updates.steps) + ", so the comparison shows nothing";
    return check;
  }
  if (auto fault = test_fault(updates, {})) {
    check.detail = *fault;
    return check;
  }
  check.passed = updates.equal;
  if (updates.equal) {
    check.detail = "all parameters and buffers are equal " + with_steps(updates.steps);
    return check;
  }
  const auto worst =
      std::ranges::min_element(updates.parameters, {}, &UpdateComparison::Parameter::cosine);
  const auto buffer =
      std::ranges::find(updates.buffers, false, &UpdateComparison::Buffer::is_equal);
  check.detail = "parameters or buffers are not equal " + with_steps(updates.steps);
  if (worst != updates.parameters.end()) {
    check.detail += fmt::format("; lowest cosine {:.9f} ({})", worst->cosine, worst->name);
  }
  if (buffer != updates.buffers.end()) {
    check.detail += fmt::format("; the buffer {} differs", buffer->update.name);
  }
  if (updates.outputs && updates.outputs->difference > 0.0) {
    check.detail += "; the outputs in evaluation mode differ";
  }
  return check;
}

CheckRecord check_repeated(const UpdateComparison& updates, const UpdateComparison& own) {
  CheckRecord check{.risk = "exact", .passed = false, .steps = updates.steps};
  const std::string context = "two runs of one configuration differ on this device: ";
  auto fault = input_fault(updates, /*is_exact=*/true);
  if (!fault && !updates.finite) fault = "NaN or infinity " + with_steps(updates.steps);
  if (!fault && !(largest_reference_norm(updates) > 0.0)) fault = "no parameter moves";
  if (!fault) fault = idle_fault(updates);
  if (!fault) fault = test_fault(updates, repeated_test_limits(updates));
  std::vector<double> distances;
  for (const auto& parameter : own.parameters)
    distances.push_back(distance_of(parameter));
  const double usual = median(distances);
  double most = 0.0;
  check.compared = static_cast<std::int64_t>(updates.parameters.size());
  for (std::size_t i = 0; !fault && i < updates.parameters.size(); ++i) {
    const auto& parameter = updates.parameters[i];
    const double distance = distance_of(parameter);
    const double allowed =
        kOfOwnDistance * std::max({usual, i < distances.size() ? distances[i] : 0.0, kRounding});
    if (!(distance <= allowed)) {  // so that NaN fails
      check.failed = 1;
      check.parameters.push_back(parameter.name);
      fault = fmt::format("the update of {} differs by {:.2g} of its length, {:.2g} is allowed",
                          parameter.name, distance, allowed);
    }
    most = std::max(most, distance);
  }
  for (std::size_t i = 0; !fault && i < updates.buffers.size(); ++i) {
    const auto& buffer = updates.buffers[i];
    const double own_distance = i < own.buffers.size() ? distance_of(own.buffers[i].update) : 0.0;
    const bool may_differ = buffer.is_floating && buffer.update.reference_norm > 0.0;
    const double allowed = kOfOwnDistance * std::max({usual, own_distance, kRounding});
    if (!buffer.is_equal && !(may_differ && distance_of(buffer.update) <= allowed)) {
      fault =
          fmt::format("the buffer {} differs by more than between two runs", buffer.update.name);
    }
  }
  if (!fault && updates.outputs) {
    const double own_share = own.outputs ? output_share(*own.outputs) : 0.0;
    const double share = output_share(*updates.outputs);
    if (!(share <= kOfOwnDistance * std::max({usual, own_share, kRounding}))) {
      fault = fmt::format("the outputs in evaluation mode differ by {:.2g} of their change", share);
    }
  }
  if (fault) {
    check.detail = context + *fault;
    return check;
  }
  check.passed = true;
  check.detail = context + fmt::format("updates differ by at most {:.2g} of their length {}", most,
                                       with_steps(updates.steps));
  return check;
}

CheckRecord check_numerics(const UpdateComparison& updates, const UpdateComparison* rounded,
                           LossKind loss, Leeway leeway) {
  return numerics(updates, rounded, Stage::initial, loss, leeway);
}

CheckRecord check_reached(const UpdateComparison& updates, bool is_exact,
                          const UpdateComparison* rounded, LossKind loss, Leeway leeway) {
  const char* const risk = is_exact ? "exact" : "numerics";
  // Also where the reference does not move, so that updates say nothing.
  if (diverges_alone(updates)) {
    return {.risk = risk,
            .passed = false,
            .steps = updates.steps,
            .detail = "NaN or infinity " + with_steps(updates.steps) +
                      ", where the reference stays finite"};
  }
  if (const auto why = why_not_comparable(updates)) {
    auto fault = input_fault(updates, is_exact);
    if (!fault) {
      fault = test_fault(updates, is_exact ? TestLimits{} : test_limits(updates, rounded, loss));
    }
    return {.risk = risk,
            .passed = !fault,
            .steps = updates.steps,
            .detail = fault ? *fault : "updates cannot be compared, because " + *why};
  }
  return is_exact ? check_equal(updates) : numerics(updates, rounded, Stage::reached, loss, leeway);
}

CheckRecord check_semantics(const UpdateComparison& updates, const std::string& rule) {
  CheckRecord check{.risk = "semantics", .steps = updates.steps};
  check.passed = updates.finite && losses_are_finite(updates.candidate_losses);
  check.detail =
      rule + (check.passed ? "; finite " : "; NaN or infinity ") + with_steps(updates.steps);
  return check;
}

}  // namespace autotuned::tuner
