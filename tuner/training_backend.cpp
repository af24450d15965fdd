// SPDX-License-Identifier: Apache-2.0
#include "tuner/training_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace autotuned::tuner {
namespace {

constexpr double kMaxInputShare = 0.25;
// Of the projection itself, whose size depends on chance: where the signs nearly cancel out, rounding is a large
// share of it.
constexpr double kMaxLoneInputShare = 0.1;
constexpr double kNoSpread = 1e-12;  // share of the squares: rounding of equal numbers

double sum_of_squares(const std::vector<double>& numbers, double mean) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0, [mean](double sum, double number) {
    return sum + (number - mean) * (number - mean);
  });
}

// The sum of squared distances from the mean; 0 for numbers that are equal but for rounding.
double spread_of(const std::vector<double>& numbers) {
  const double mean =
      std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
  const double spread = sum_of_squares(numbers, mean);
  return spread > kNoSpread * sum_of_squares(numbers, 0.0) ? spread : 0.0;
}

// Returns how far the projections of a step may be from `ones`, those of the reference, as a sum of squares. For other
// samples it would be twice their spread. A batch of one sample has none, so that of all steps serves. Where that is 0,
// too, nothing but the size of the projections is known. REQUIRES: `ones` is one of `steps`, and not empty.
double most_apart(const std::vector<double>& ones,
                  const std::vector<UpdateComparison::StepInput>& steps) {
  if (const double spread = spread_of(ones); spread > 0.0) return kMaxInputShare * spread;
  std::vector<double> all;
  for (const auto& step : steps)
    all.insert(all.end(), step.projections.begin(), step.projections.end());
  if (const double spread = spread_of(all); spread > 0.0) {
    return kMaxInputShare * spread * static_cast<double>(ones.size()) /
           static_cast<double>(all.size());
  }
  return kMaxLoneInputShare * kMaxLoneInputShare * sum_of_squares(ones, 0.0);
}

}  // namespace

std::optional<std::string> input_fault(const UpdateComparison& updates, bool is_exact) {
  const auto& reference = updates.reference_inputs;
  const auto& candidate = updates.candidate_inputs;
  if (reference.empty()) return std::nullopt;
  if (reference.size() != candidate.size()) {
    return fmt::format("the model was given {} {} in {} {}", candidate.size(),
                       candidate.size() == 1 ? "batch" : "batches", reference.size(),
                       reference.size() == 1 ? "step" : "steps");
  }
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const auto& one = reference[i].projections;
    const auto& two = candidate[i].projections;
    if (reference[i].labels != candidate[i].labels) {
      return fmt::format("the labels of step {} differ from the reference's", i + 1);
    }
    if (one.size() != two.size()) {
      return fmt::format("in step {} the model was given {} samples instead of {}", i + 1,
                         two.size(), one.size());
    }
    if (is_exact && reference[i].images != candidate[i].images) {
      return fmt::format("the samples of step {} differ from the reference's", i + 1);
    }
    // The same bits are the same samples, also where they are NaN.
    const bool is_same = !reference[i].images.empty() && reference[i].images == candidate[i].images;
    if (is_same || one.empty()) continue;
    double apart = 0.0;
    for (std::size_t sample = 0; sample < one.size(); ++sample)
      apart += (one[sample] - two[sample]) * (one[sample] - two[sample]);
    if (!(apart <= most_apart(one, reference))) {
      return fmt::format("the samples of step {} differ from the reference's", i + 1);
    }
  }
  return std::nullopt;
}

std::optional<std::string> test_fault(const UpdateComparison& updates, const TestLimits& limits) {
  if (!updates.reference_test || !updates.candidate_test) return std::nullopt;
  const UpdateComparison::Test& reference = *updates.reference_test;
  const UpdateComparison::Test& candidate = *updates.candidate_test;
  const auto fault_of = [&reference](const char* figure, double one, double two,
                                     double most) -> std::optional<std::string> {
    // A figure that the reference does not have says nothing; NaN of the candidate alone is a fault.
    if (!std::isfinite(one) || std::abs(two - one) <= most) return std::nullopt;
    return fmt::format(
        "with the same weights the {} of {} test samples is {:.6g} against {:.6g} of the reference "
        "(at most {:.2g} apart)",
        figure, reference.samples, two, one, most);
  };
  if (auto fault = fault_of("loss", reference.loss, candidate.loss, limits.loss)) return fault;
  if (!reference.accuracy || !candidate.accuracy) return std::nullopt;
  return fault_of("accuracy", *reference.accuracy, *candidate.accuracy, limits.accuracy);
}

double largest_reference_norm(const UpdateComparison& updates) {
  double largest = 0.0;
  for (const auto& parameter : updates.parameters) {
    largest = std::max(largest, parameter.reference_norm);
  }
  return largest;
}

double distance_of(const UpdateComparison::Parameter& update) {
  const double ratio = update.norm_ratio;
  if (update.reference_norm == 0.0) return ratio == 1.0 ? 0.0 : std::nan("");
  return std::sqrt(std::max(0.0, 1.0 + ratio * ratio - 2.0 * ratio * update.cosine));
}

double output_share(const UpdateComparison::Outputs& outputs) {
  if (outputs.difference == 0.0) return 0.0;
  return outputs.difference / outputs.reference_change;
}

bool losses_are_finite(const std::vector<double>& losses) {
  return std::ranges::all_of(losses, [](double loss) { return std::isfinite(loss); });
}

bool is_reference_finite(const UpdateComparison& updates) {
  const auto is_finite = [](const UpdateComparison::Parameter& parameter) {
    return std::isfinite(parameter.reference_norm);
  };
  return losses_are_finite(updates.reference_losses) &&
         std::ranges::all_of(updates.parameters, is_finite);
}

bool diverges_alone(const UpdateComparison& updates) {
  const auto is_finite = [](const UpdateComparison::Buffer& buffer) {
    return !buffer.is_floating || std::isfinite(buffer.update.reference_norm);
  };
  const bool is_candidate_finite =
      (updates.finite || updates.equal) && losses_are_finite(updates.candidate_losses);
  return !is_candidate_finite && is_reference_finite(updates) &&
         std::ranges::all_of(updates.buffers, is_finite);
}

}  // namespace autotuned::tuner
