// SPDX-License-Identifier: Apache-2.0
// How near an extension must come to the reference: at which batch size, and within which limits.
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/tuner/run_checks_scene.hpp"
#include "tuner/checks.hpp"

namespace autotuned::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 8;

// Steps after which the only parameter has moved so.
UpdateComparison moved(double norm_ratio, double cosine, std::int64_t steps = kSteps) {
  UpdateComparison updates = SimulatedBackend::equal(steps);
  updates.equal = false;
  updates.parameters[0].norm_ratio = norm_ratio;
  updates.parameters[0].cosine = cosine;
  return updates;
}

bool passes(const UpdateComparison& updates, const UpdateComparison* rounded, Leeway leeway) {
  return check_numerics(updates, rounded, LossKind::cross_entropy, leeway).passed;
}

struct Part {
  const char* what;
  double norm_ratio;
  double cosine;
};

// Each is another training, within the limits of a change without an extension.
TEST(ExtensionLimits, AreNarrowWhereRoundingTheStartChangesLittle) {
  const UpdateComparison own = moved(0.999, 0.9999);
  for (const Part& part :
       {Part{"gradients times 0.81", 0.81, 1.0}, Part{"gradients times 1.24", 1.24, 1.0},
        Part{"a quarter of the units stands still", 0.866, 0.866},
        Part{"an eighth of the samples is left out", 1.069, 0.935}}) {
    const UpdateComparison updates = moved(part.norm_ratio, part.cosine);
    EXPECT_TRUE(passes(updates, &own, Leeway::usual)) << part.what;
    for (const Leeway leeway : {Leeway::narrow, Leeway::narrow_in_16_bits}) {
      EXPECT_FALSE(passes(updates, &own, leeway)) << part.what;
      EXPECT_FALSE(passes(updates, nullptr, leeway)) << part.what;
      EXPECT_FALSE(check_reached(updates, false, &own, LossKind::cross_entropy, leeway).passed)
          << part.what;
    }
  }
}

TEST(ExtensionLimits, LeaveRoomForRounding) {
  for (const Part& part : {Part{"another order of sums", 1.00001, 0.9999999},
                           Part{"16 bits in the extension", 0.98, 0.99}}) {
    EXPECT_TRUE(passes(moved(part.norm_ratio, part.cosine), nullptr, Leeway::narrow)) << part.what;
  }
  const UpdateComparison in_16_bits = moved(0.93, 0.96);
  EXPECT_FALSE(passes(in_16_bits, nullptr, Leeway::narrow));
  EXPECT_TRUE(passes(in_16_bits, nullptr, Leeway::narrow_in_16_bits));
}

// Near a loss of 0 rounding logits to 16 bits scales the whole update.
TEST(ExtensionLimits, AllowALongerOrShorterUpdateLateInATraining) {
  const auto passes_late = [](double norm_ratio, double cosine) {
    return check_reached(moved(norm_ratio, cosine), /*is_exact=*/false, /*rounded=*/nullptr,
                         LossKind::cross_entropy, Leeway::narrow)
        .passed;
  };
  EXPECT_TRUE(passes_late(0.945, 0.998));
  EXPECT_TRUE(passes_late(1.06, 0.998));
  EXPECT_FALSE(passes(moved(0.945, 0.998), nullptr, Leeway::narrow)) << "at the start";
  EXPECT_FALSE(passes(moved(1.06, 0.998), nullptr, Leeway::narrow)) << "at the start";
  EXPECT_FALSE(passes_late(0.89, 1.0));
  EXPECT_FALSE(passes_late(1.12, 1.0));
  EXPECT_FALSE(passes_late(0.945, 0.97)) << "it may not turn farther";
}

TEST(ExtensionLimits, GoWithWhatRoundingTheStartChanges) {
  const UpdateComparison updates = moved(0.86, 0.85);
  UpdateComparison own = moved(0.96, 0.99);
  EXPECT_TRUE(passes(updates, &own, Leeway::narrow)) << "four times as far";
  own.parameters[0].cosine = 0.995;
  EXPECT_FALSE(passes(updates, &own, Leeway::narrow)) << "a cosine of 0.92";
  own = moved(0.97, 0.99);
  EXPECT_FALSE(passes(updates, &own, Leeway::narrow)) << "a norm ratio of 0.88";
  // Of a job that turns its own updates no more is asked than without an extension, and no less.
  own = moved(0.5, 0.6);
  EXPECT_TRUE(passes(moved(0.81, 0.5), &own, Leeway::narrow));
  EXPECT_FALSE(passes(moved(0.79, 0.5), &own, Leeway::narrow));
  EXPECT_FALSE(passes(moved(0.81, 0.3), &own, Leeway::narrow));
}

// A single parameter may keep its direction by chance.
TEST(ExtensionLimits, GoWithTheMedianOfTheParameters) {
  UpdateComparison updates = moved(0.999, 0.9);
  UpdateComparison own = moved(1.0, 1.0);
  for (int other = 0; other < 2; ++other) {
    updates.parameters.push_back({"other", 1.0, 1.0, 0.999});
    own.parameters.push_back({"other", 1.0, 1.0, 0.99});
  }
  EXPECT_TRUE(passes(updates, &own, Leeway::narrow));
  own.parameters[1].cosine = own.parameters[2].cosine = 1.0;
  EXPECT_FALSE(passes(updates, &own, Leeway::narrow));
}

TEST(ExtensionLimits, TheSameWeightsHaveTheSameFigures) {
  UpdateComparison updates = SimulatedBackend::equal(kSteps);
  updates.reference_test = {.samples = 512, .loss = 0.5, .accuracy = 0.9};
  updates.candidate_test = updates.reference_test;
  EXPECT_TRUE(check_equal(updates).passed);
  EXPECT_TRUE(check_numerics(updates).passed);
  updates.candidate_test->loss = 0.500001;
  EXPECT_THAT(check_equal(updates).detail,
              HasSubstr("with the same weights the loss of 512 test samples is 0.500001"));
  EXPECT_TRUE(check_repeated(updates, moved(1.01, 1.0)).passed) << "two runs may differ as much";
  EXPECT_TRUE(check_numerics(updates).passed);
  updates.candidate_test->loss = 0.6;
  EXPECT_FALSE(check_numerics(updates).passed);
  UpdateComparison own = SimulatedBackend::equal(kSteps);
  own.reference_test = {.samples = 512, .loss = 0.5, .accuracy = 0.9};
  own.candidate_test = {.samples = 512, .loss = 0.54, .accuracy = 0.87};
  EXPECT_TRUE(check_numerics(updates, &own).passed) << "rounding the weights changes it as much";
  updates.candidate_test->loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(check_numerics(updates, &own).passed);
  updates.candidate_test = {.samples = 512, .loss = 0.5, .accuracy = 0.84};
  EXPECT_THAT(check_numerics(updates).detail, HasSubstr("the accuracy of 512 test samples"));
  EXPECT_TRUE(check_numerics(updates, &own).passed);
  updates.candidate_test->accuracy = 0.86;
  EXPECT_TRUE(check_numerics(updates).passed);
  EXPECT_FALSE(check_equal(updates).passed);
  // A job that has stopped learning says nothing but this.
  updates.parameters[0].reference_norm = 0.0;
  EXPECT_FALSE(check_reached(updates, /*is_exact=*/true).passed);
  EXPECT_TRUE(check_reached(updates, /*is_exact=*/false).passed);
}

TEST_F(RunChecks, AnExtensionIsHeldToNarrowLimits) {
  add_extension(recipes::RiskClass::numerics);
  job_.updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
    return moved(0.93, 0.96, steps);
  };
  const Configuration skip = change("mine.skip", true);
  const Configuration bf16 = change("precision.autocast", std::string("bf16"));
  EXPECT_FALSE(run(skip).back().passed);
  EXPECT_TRUE(run(bf16).back().passed) << "without it";
  EXPECT_TRUE(run(bf16.with(skip)).back().passed);
  incumbent_ = incumbent_.with(bf16);
  EXPECT_TRUE(run(skip).back().passed);
  EXPECT_FALSE(check_trained(input_, job_, input_.starting.with(skip))->passed);
  EXPECT_TRUE(check_trained(input_, job_, incumbent_.with(skip))->passed);
}

TEST_F(RunChecks, AScaledUpdateOfAnExtensionPassesLateInATrainingOnly) {
  add_extension(recipes::RiskClass::numerics);
  CheckedSteps scaled = CheckedSteps::reached;
  double norm_ratio = 0.945;
  job_.updates = [&](const Configuration&, const Configuration&, std::int64_t steps) {
    return moved(job_.looks.back() == scaled ? norm_ratio : 1.0, 1.0, steps);
  };
  const Configuration skip = change("mine.skip", true);
  EXPECT_TRUE(run(skip).back().passed);
  EXPECT_TRUE(check_trained(input_, job_, incumbent_.with(skip))->passed);
  for (const CheckedSteps at_start : {CheckedSteps::later, CheckedSteps::first}) {
    scaled = at_start;
    EXPECT_FALSE(run(skip).back().passed);
  }
  scaled = CheckedSteps::reached;
  norm_ratio = 0.81;
  EXPECT_FALSE(run(skip).back().passed);
  EXPECT_FALSE(check_trained(input_, job_, incumbent_.with(skip))->passed);
}

// Of one step only an extension asks what rounding does, because its limits are narrow.
TEST_F(RunChecks, OneStepOfAnExtensionIsHeldAgainstRounding) {
  add_extension(recipes::RiskClass::numerics);
  double cosine = 0.9;
  job_.updates = [&](const Configuration&, const Configuration&, std::int64_t steps) {
    return moved(1.0, steps == 1 ? cosine : 1.0, steps);
  };
  double own = 0.99;
  job_.rounded_updates = [&](const Configuration& configuration, std::int64_t steps) {
    EXPECT_EQ(configuration, input_.starting);
    EXPECT_EQ(steps, 1);
    return moved(1.0, own, steps);
  };
  EXPECT_TRUE(run(change("mine.skip", true)).back().passed);
  own = 1.0;
  EXPECT_FALSE(run(change("mine.skip", true)).back().passed);
  own = 0.5;
  cosine = 0.7;
  EXPECT_FALSE(run(change("mine.skip", true)).back().passed) << "one step is not led astray";
}

// It may train correctly at the batch size of the recipe alone.
TEST_F(RunChecks, AnExtensionIsComparedAtTheBatchSizeThatWasKept) {
  add_extension(recipes::RiskClass::numerics);
  incumbent_.set("batch_size", std::int64_t{64});
  run(change("mine.skip", true));
  EXPECT_THAT(job_.looks,
              ElementsAre(CheckedSteps::reached, CheckedSteps::later, CheckedSteps::first));
  for (const Asked& asked : asked_) {
    EXPECT_EQ(asked.reference, input_.starting.with(change("batch_size", std::int64_t{64})));
    EXPECT_EQ(asked.candidate, incumbent_.with(change("mine.skip", true)));
  }
}

TEST_F(RunChecks, AnotherBatchSizeIsComparedWithTheExtensionThatIsOn) {
  const Configuration larger = change("batch_size", std::int64_t{64});
  add_extension(recipes::RiskClass::numerics);
  incumbent_.set("mine.skip", true);
  auto checks = run(larger);
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::reached, CheckedSteps::later,
                                      CheckedSteps::first, CheckedSteps::first));
  ASSERT_EQ(checks.size(), 3U);
  EXPECT_TRUE(checks[1].passed);
  EXPECT_EQ(checks[1].risk, "numerics");
  EXPECT_EQ(checks[2].risk, "semantics");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(asked_[i].reference, input_.starting.with(larger));
    EXPECT_EQ(asked_[i].candidate, incumbent_.with(larger));
  }
  job_.updates = [](const Configuration& reference, const Configuration& candidate,
                    std::int64_t steps) {
    const bool is_wrong = candidate.integer("batch_size") == 64 && !reference.flag("mine.skip");
    return moved(is_wrong ? 0.5 : 1.0, 1.0, steps);
  };
  checks = run(larger);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);
  EXPECT_FALSE(check_trained(input_, job_, incumbent_.with(larger))->passed);
  EXPECT_TRUE(check_trained(input_, job_, incumbent_)->passed);
}

// Only the extension differs, so that bits count.
TEST_F(RunChecks, AnotherBatchSizeIsComparedWithAnExactExtensionBesideTheIncumbent) {
  const Configuration larger = change("batch_size", std::int64_t{64});
  add_extension(recipes::RiskClass::exact);
  const Configuration without = incumbent_.with(larger);
  incumbent_.set("mine.skip", true);
  const auto checks = run(larger);
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::reached, CheckedSteps::later,
                                      CheckedSteps::first, CheckedSteps::first));
  ASSERT_EQ(checks.size(), 3U);
  EXPECT_EQ(checks[0].risk, "exact");
  EXPECT_EQ(checks[1].risk, "exact");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(asked_[i].reference, without);
    EXPECT_EQ(asked_[i].candidate, incumbent_.with(larger));
  }
}

}  // namespace
}  // namespace autotuned::tuner
