// SPDX-License-Identifier: Apache-2.0
// Jobs whose blocks are steps of the training that the user gets.
#include <gmock/gmock.h>

#include "tests/tuner/simulation.hpp"

namespace autotuned::tuner {
namespace {

using testing::HasSubstr;

class RealTraining : public testing::Test {
 protected:
  RealTraining() {
    simulation_.advisors.plugins["precision"] = once({{"precision.autocast", "bf16"}}, 1.5);
    simulation_.job.is_training = true;
    simulation_.job.rate = [](const Configuration& configuration) {
      return 1000.0 * faster_with(configuration, "precision.autocast", std::string("bf16"), 1.5);
    };
  }

  Simulation simulation_;
};

TEST_F(RealTraining, IsCheckedBeforeItIsTimed) {
  std::vector<int> blocks_at_check;
  simulation_.job.updates = [&](const Configuration&, const Configuration&, std::int64_t steps) {
    blocks_at_check.push_back(simulation_.ledger.blocks[1]);
    return SimulatedBackend::equal(steps);
  };
  const auto outcome = simulation_.run();
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::accepted);
  EXPECT_THAT(outcome->trials[0].reason, HasSubstr("pairs; numerics check: "));
  EXPECT_THAT(blocks_at_check, testing::ElementsAre(0));
}

TEST_F(RealTraining, MakesNoStepWithAnotherModel) {
  simulation_.job.updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.finite = false;
    return updates;
  };
  const auto outcome = simulation_.run();
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->trials.size(), 1U);
  EXPECT_EQ(outcome->trials[0].rejection, RejectionReason::not_same_model);
  EXPECT_EQ(outcome->trials[0].reason,
            "it does not train the same model: NaN or infinity after 8 steps");
  EXPECT_EQ(simulation_.ledger.blocks.count(1), 0U);
}

TEST_F(RealTraining, ACheckThatCannotBeMadeIsAFailedTrial) {
  simulation_.job.fault = [](const Configuration& configuration) -> std::optional<Error> {
    if (configuration.text("precision.autocast") != "bf16") return std::nullopt;
    return Error{.kind = ErrorKind::unsupported, .what = "the loss resists"};
  };
  const auto outcome = simulation_.run();
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->trials.size(), 1U);
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::failed);
  EXPECT_THAT(outcome->trials[0].reason, HasSubstr("the check could not be made"));
  EXPECT_EQ(outcome->trials[0].estimate.pairs, 0);
}

}  // namespace
}  // namespace autotuned::tuner
