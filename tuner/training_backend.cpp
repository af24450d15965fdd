// SPDX-License-Identifier: Apache-2.0
#include "tuner/training_backend.hpp"

#include <fmt/format.h>

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

}  // namespace autotuned::tuner
