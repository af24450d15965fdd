// SPDX-License-Identifier: Apache-2.0
// Operators that an extension replaces by way of plugins/sdk/operator.hpp, in a job.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "tests/golden.hpp"
#include "tests/trainer/plugin_job.hpp"

namespace autotuned::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kRelu = "swaps.relu";

class OperatorTest : public PluginJobTest {
 protected:
  OperatorTest() : PluginJobTest("swaps", kRelu, "AUTOTUNED_TEST_SWAPS") {}

  // What the extension wrote when it was last undone.
  std::string last_note() const {
    std::ifstream notes(folder_ / "notes");
    std::string last;
    for (std::string line; std::getline(notes, line);)
      last = line;
    return last;
  }
};

TEST_F(OperatorTest, AReplacementTrainsTheSameToTheBit) {
  const std::string expected = digest();
  for (const char* what : {"values", "twice", "gradient", "others", "backward"}) {
    value_of(turn(what));
    EXPECT_EQ(digest(), expected) << what;
    value_of(turn("pytorch"));
    EXPECT_THAT(last_note(), HasSubstr("own=12 ")) << what;
  }
}

TEST_F(OperatorTest, WhatItDoesNotHandleGoesToPytorch) {
  value_of(turn("values"));
  // Batches of 20, 20 and 10, some of which the model answers once more by itself, with the operators that are there.
  value_of(job_->evaluate(never));
  value_of(turn("pytorch"));
  EXPECT_THAT(last_note(), testing::MatchesRegex("own=[234] passed=[12]"));
}

TEST_F(OperatorTest, IsOnOnlyWhileItsKnobIsSet) {
  value_of(turn("values"));
  value_of(job_->run_steps(3, never));
  value_of(turn("pytorch"));
  EXPECT_EQ(last_note(), "own=3 passed=0");
  value_of(job_->run_steps(3, never));
  value_of(turn("values"));
  value_of(turn("pytorch"));
  EXPECT_EQ(last_note(), "own=0 passed=0");
}

TEST_F(OperatorTest, AWrongGradientShowsInTheComparison) {
  for (const char* what : {"pytorch", "half_gradient"}) {
    value_of(turn(what));
    EXPECT_TRUE(job_->restore("initial"));
    value_of(job_->run_steps(1, never));
    value_of(job_->keep(what));
  }
  const Comparison comparison = value_of(job_->compare("initial", "pytorch", "half_gradient"));
  ASSERT_EQ(comparison.parameters.at(0).name, "hidden.weight");
  EXPECT_NEAR(comparison.parameters[0].norm_ratio, 0.5, 1e-3);
}

TEST_F(OperatorTest, AMissingGradientIsNamed) {
  value_of(turn("forgets_gradient"));
  const auto block = job_->run_steps(1, never);
  ASSERT_FALSE(block);
  EXPECT_THAT(block.error().message(),
              AllOf(HasSubstr("aten::relu"), HasSubstr("gives no gradient")));
}

TEST_F(OperatorTest, WhatCannotBeReplacedIsNamed) {
  tests::Cases cases;
  for (const char* what : {"composite", "signature", "nameless", "unknown"})
    cases.add(what, error_of(what));
  tests::expect_golden("trainer/extensions/golden/operators.txt", cases.text());
  value_of(turn("pytorch"));
}

// The one that came second stands on what the first one did, so it goes first.
TEST(Extensions, AreUndoneInTheOtherOrder) {
  const recipes::Recipe recipe = small_recipe();
  const Configuration start = starting(recipe);
  const auto job = value_of(
      Job::load(recipe, start, test_machine(), cpu_only(), {fixture("cheats"), fixture("swaps")}));
  const Configuration frozen =
      with(with(start, "cheats.cheat", "freezes_at_the_start"), "cheats.another_job", true);
  value_of(job->prepare(frozen));
  value_of(job->prepare(with(frozen, kRelu, "values")));
  value_of(job->prepare(with(start, kRelu, "values")));
  value_of(job->run_steps(2, never));
  value_of(job->prepare(start));
}

}  // namespace
}  // namespace autotuned::trainer
