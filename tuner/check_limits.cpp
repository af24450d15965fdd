// SPDX-License-Identifier: Apache-2.0
#include "tuner/check_limits.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/statistics.hpp"

namespace autotuned::tuner {
namespace {

// kOfOwn...: factors of the deviation that rounding the start causes.
constexpr double kOfOwnCosine = 2.0 / 3.0;
constexpr double kOfOwnNormLoss = 1.5;
constexpr double kMinReachedNormRatio = 0.2;
constexpr double kOfOwnTurn = 16.0;  // four times the distance: 1 - cosine is half of its square
constexpr double kOfOwnStretch = 4.0;
constexpr double kMaxAccuracyChange = 0.05;
constexpr double kMaxOtherAnswers = 2.0;  // samples that are classified otherwise
constexpr double kOfOwnTest = 3.0;
constexpr double kMaxRepeatedTestShare = 1e-3;

// How far an update may be from the reference's where limits are narrow and the job itself keeps its updates.
struct Floors {
  double turn;     // 1 - cosine
  double stretch;  // 1 - norm ratio
};

// Where a training has reached a loss near 0, the gradient of a cross entropy is exponential in the logits: rounding
// them to 16 bits scales the whole update by several per cent, and hardly turns it.
constexpr Floors floors_of(Leeway leeway, Stage stage) {
  const bool is_in_16_bits = leeway == Leeway::narrow_in_16_bits;
  return {.turn = is_in_16_bits ? 0.05 : 0.02,
          .stretch = is_in_16_bits || stage == Stage::reached ? 0.1 : 0.05};
}

double turn_of(const UpdateComparison::Parameter& update) {
  return std::isfinite(update.cosine) ? std::max(0.0, 1.0 - update.cosine) : 0.0;
}

double stretch_of(const UpdateComparison::Parameter& update) {
  const double ratio = update.norm_ratio;
  return std::isfinite(ratio) && ratio > 0.0 ? 1.0 - std::min(ratio, 1.0 / ratio) : 0.0;
}

// Narrows limits to a few times what rounding the start changes, in this parameter or in most of them, but not below
// the floors.
class Narrowing {
 public:
  Narrowing(const UpdateComparison* rounded, Stage stage, Leeway leeway)
      : is_on_(leeway != Leeway::usual), floors_(floors_of(leeway, stage)) {
    if (rounded == nullptr || !is_on_) return;
    std::vector<double> turns;
    std::vector<double> stretches;
    const double largest = largest_reference_norm(*rounded);
    for (const auto& own : rounded->parameters) {
      if (!(own.reference_norm >= kNegligibleNorm * largest)) continue;
      turns.push_back(turn_of(own));
      stretches.push_back(stretch_of(own));
    }
    usual_ = {.turn = median(turns), .stretch = median(stretches)};
  }

  // `own`: null where it is not known.
  [[nodiscard]] UpdateLimits of(UpdateLimits limits, const UpdateComparison::Parameter* own) const {
    if (!is_on_) return limits;
    const double turn = std::max(usual_.turn, own != nullptr ? turn_of(*own) : 0.0);
    const double stretch = std::max(usual_.stretch, own != nullptr ? stretch_of(*own) : 0.0);
    limits.least_cosine =
        std::max(limits.least_cosine, 1.0 - std::max(floors_.turn, kOfOwnTurn * turn));
    limits.least_norm_ratio =
        std::max(limits.least_norm_ratio, 1.0 - std::max(floors_.stretch, kOfOwnStretch * stretch));
    return limits;
  }

 private:
  bool is_on_;
  Floors floors_;
  Floors usual_ = {.turn = 0.0, .stretch = 0.0};
};

// The accuracy that some samples alone make, which are classified otherwise.
double accuracy_of_others(const UpdateComparison::Test& test) {
  return kMaxOtherAnswers / static_cast<double>(std::max<std::int64_t>(1, test.samples));
}

}  // namespace

double UpdateLimits::most_norm_ratio() const {
  return least_norm_ratio == kMinNormRatio ? kMaxNormRatio : 1.0 / least_norm_ratio;
}

UpdateLimits limits_beside(const UpdateComparison::Parameter& own, Stage stage) {
  UpdateLimits limits;
  if (std::isfinite(own.cosine)) {
    limits.least_cosine = std::min(kMinCosine, kOfOwnCosine * std::max(0.0, own.cosine));
  }
  if (stage == Stage::reached && std::isfinite(own.norm_ratio) && own.norm_ratio > 0.0) {
    const double shorter = std::min(own.norm_ratio, 1.0 / own.norm_ratio);
    limits.least_norm_ratio =
        std::clamp(1.0 - kOfOwnNormLoss * (1.0 - shorter), kMinReachedNormRatio, kMinNormRatio);
  }
  return limits;
}

std::vector<UpdateLimits> parameter_limits(const UpdateComparison& updates,
                                           const UpdateComparison* rounded, Stage stage,
                                           Leeway leeway) {
  std::vector<UpdateLimits> limits(updates.parameters.size());
  const bool has_own = rounded != nullptr && rounded->parameters.size() == limits.size();
  const Narrowing narrowing(has_own ? rounded : nullptr, stage, leeway);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto* const own = has_own ? &rounded->parameters[i] : nullptr;
    limits[i] = narrowing.of(own != nullptr ? limits_beside(*own, stage) : limits[i], own);
  }
  return limits;
}

TestLimits test_limits(const UpdateComparison& updates, const UpdateComparison* rounded,
                       LossKind kind) {
  if (!updates.reference_test) return {};
  const UpdateComparison::Test& reference = *updates.reference_test;
  const double least = kind == LossKind::cross_entropy ? kMinLossScale : kMinOtherLossScale;
  TestLimits limits{.loss = kLossTolerance * std::max(std::abs(reference.loss), least),
                    .accuracy = std::max(kMaxAccuracyChange, accuracy_of_others(reference))};
  if (rounded == nullptr || !rounded->reference_test || !rounded->candidate_test) return limits;
  const UpdateComparison::Test& one = *rounded->reference_test;
  const UpdateComparison::Test& two = *rounded->candidate_test;
  const double apart = std::abs(two.loss - one.loss);
  if (std::isfinite(apart)) limits.loss = std::max(limits.loss, kOfOwnTest * apart);
  if (one.accuracy && two.accuracy) {
    limits.accuracy =
        std::max(limits.accuracy, kOfOwnTest * std::abs(*two.accuracy - *one.accuracy));
  }
  return limits;
}

TestLimits repeated_test_limits(const UpdateComparison& updates) {
  if (!updates.reference_test) return {};
  const UpdateComparison::Test& reference = *updates.reference_test;
  return {.loss = kMaxRepeatedTestShare * std::abs(reference.loss),
          .accuracy = accuracy_of_others(reference)};
}

}  // namespace autotuned::tuner
