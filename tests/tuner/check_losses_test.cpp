// SPDX-License-Identifier: Apache-2.0
// Losses of other kinds than a cross entropy have the scale of their targets; and values that are not finite.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/tuner/simulation.hpp"
#include "tuner/checks.hpp"

namespace autotuned::tuner {
namespace {

using testing::HasSubstr;

// Losses of targets that are small numbers.
class SmallLosses : public testing::Test {
 protected:
  static UpdateComparison losses(double reference, double candidate) {
    UpdateComparison updates{.steps = 8, .equal = false, .finite = true};
    updates.parameters.push_back({"weight", 1.0, 1.0, 1.0});
    updates.reference_losses.assign(8, reference);
    updates.candidate_losses.assign(8, candidate);
    return updates;
  }
  static CheckRecord check(const UpdateComparison& updates,
                           const UpdateComparison* rounded = nullptr) {
    return check_numerics(updates, rounded, LossKind::other);
  }
  static CheckRecord check_late(const UpdateComparison& updates, const UpdateComparison& rounded) {
    return check_reached(updates, /*is_exact=*/false, &rounded, LossKind::other);
  }
};

TEST_F(SmallLosses, AreHeldAgainstTheirOwnScale) {
  EXPECT_TRUE(check_numerics(losses(1e-4, 3e-4)).passed) << "of a cross entropy it is next to none";
  const CheckRecord thrice = check(losses(1e-4, 3e-4));
  EXPECT_FALSE(thrice.passed);
  EXPECT_EQ(thrice.detail, "the loss of step 1 is 0.0003 against 0.0001 (at most 1e-05 apart)");
  EXPECT_FALSE(check(losses(1e-9, 3e-9)).passed);
  EXPECT_FALSE(check(losses(1e6, 3e6)).passed);
  EXPECT_TRUE(check(losses(1e-4, 1.004e-4)).passed) << "rounding to 16 bits";
  EXPECT_TRUE(check(losses(0.0, 0.0)).passed);
  EXPECT_TRUE(check(losses(0.0, 1e-14)).passed) << "rounding to 32 bits";
  EXPECT_FALSE(check(losses(1e-4, std::nan(""))).passed);
}

TEST_F(SmallLosses, OfLaterStepsAreHeldAgainstTheFirst) {
  UpdateComparison updates = losses(1.0, 1.0);
  updates.reference_losses[7] = 1e-3;
  updates.candidate_losses[7] = 3e-3;
  EXPECT_TRUE(check(updates).passed) << "both have learned it";
  updates.candidate_losses[7] = 0.2;
  EXPECT_THAT(check(updates).detail, HasSubstr("the loss of step 8 is 0.2 against 0.001"));
}

// A loss that may be negative.
TEST_F(SmallLosses, ThatPassThroughNothingAreHeldAgainstTheLargest) {
  UpdateComparison updates = losses(1e-6, 1.5e-6);
  EXPECT_FALSE(check(updates).passed);
  updates.reference_losses[7] = updates.candidate_losses[7] = -1.0;
  EXPECT_TRUE(check(updates).passed);
  updates.candidate_losses[0] = 0.2;
  EXPECT_FALSE(check(updates).passed);
}

TEST_F(SmallLosses, MayDifferAsRoundingTheStartMakesThem) {
  UpdateComparison own = losses(1e-4, 1e-4);
  own.candidate_losses[3] = 1.2e-4;
  const UpdateComparison apart = losses(1e-4, 1.25e-4);
  EXPECT_FALSE(check(apart).passed);
  EXPECT_TRUE(check(apart, &own).passed);
  EXPECT_FALSE(check(losses(1e-4, 1.5e-4), &own).passed);
  EXPECT_TRUE(check_late(losses(1e-4, 1.5e-4), own).passed) << "three times as much late";
  EXPECT_FALSE(check_late(losses(1e-4, 3e-4), own).passed);
  // Whatever the job does by itself from its start.
  own.candidate_losses[3] = 1.0;
  EXPECT_FALSE(check(losses(1e-4, 3e-4), &own).passed);
}

// After the same steps from the same state. If both do, nothing can be compared.
TEST(ReachedWeights, ACandidateThatAloneReachesNaNFromReachedWeightsHasFailed) {
  for (const bool is_exact : {true, false}) {
    for (const double reference_norm : {0.0, 1.0}) {
      UpdateComparison by_values = SimulatedBackend::equal(8);
      for (auto& parameter : by_values.parameters)
        parameter.reference_norm = reference_norm;
      UpdateComparison by_losses = by_values;
      by_values.equal = false;
      by_values.finite = false;
      by_losses.candidate_losses.back() = std::nan("");
      for (UpdateComparison* updates : {&by_values, &by_losses}) {
        const CheckRecord check = check_reached(*updates, is_exact);
        EXPECT_FALSE(check.passed);
        EXPECT_EQ(check.risk, is_exact ? "exact" : "numerics");
        EXPECT_THAT(check.detail, HasSubstr("where the reference stays finite"));
        updates->reference_losses.back() = std::nan("");
        const CheckRecord both = check_reached(*updates, is_exact);
        EXPECT_TRUE(both.passed);
        EXPECT_THAT(both.detail, HasSubstr("the reference itself reaches NaN"));
      }
    }
  }
  // A mask of infinities that both have is no divergence.
  UpdateComparison masked = SimulatedBackend::equal(8);
  masked.finite = false;
  masked.buffers.push_back(
      {.update = {"mask", std::nan(""), 1.0, 1.0}, .is_floating = true, .is_equal = true});
  EXPECT_TRUE(check_reached(masked, /*is_exact=*/true).passed);
}

}  // namespace
}  // namespace autotuned::tuner
