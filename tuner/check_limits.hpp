// SPDX-License-Identifier: Apache-2.0
// The limits within which a change of numerics must keep the training, from what rounding the start changes in the job
// itself. checks.hpp explains them, docs/statistics.md gives the reasons. For check_rules.cpp. Pure.
#pragma once

#include <vector>

#include "tuner/checks.hpp"

namespace autotuned::tuner {

inline constexpr double kMinNormRatio = 0.8;
inline constexpr double kMaxNormRatio = 1.25;
inline constexpr double kMinCosine = 0.8;
inline constexpr double kNegligibleNorm = 1e-3;  // share of the largest reference update
inline constexpr double kLossTolerance = 0.1;
inline constexpr double kMinLossScale = 0.1;
inline constexpr double kMinOtherLossScale = 1e-12;

// The state from which the steps were made.
enum class Stage { initial, reached };

// The limits of one update. It may be longer by the same factor as it may be shorter.
struct UpdateLimits {
  double least_cosine = kMinCosine;
  double least_norm_ratio = kMinNormRatio;

  [[nodiscard]] double most_norm_ratio() const;
};

// If rounding the start changes the directions of the job's own updates, `own`, the limits are wider. Late in a
// training it may also change their lengths.
[[nodiscard]] UpdateLimits limits_beside(const UpdateComparison::Parameter& own, Stage stage);

// Returns the limits of each parameter, in order.
[[nodiscard]] std::vector<UpdateLimits> parameter_limits(const UpdateComparison& updates,
                                                         const UpdateComparison* rounded,
                                                         Stage stage, Leeway leeway);

// The limits of the figures of the test data in a change of numerics.
[[nodiscard]] TestLimits test_limits(const UpdateComparison& updates,
                                     const UpdateComparison* rounded, LossKind kind);
// Those where two runs of one configuration already differ.
[[nodiscard]] TestLimits repeated_test_limits(const UpdateComparison& updates);

}  // namespace autotuned::tuner
