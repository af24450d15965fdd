// SPDX-License-Identifier: Apache-2.0
// A trainer extension in a job: applied, undone, hooked, and named when it fails.
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "tests/trainer/plugin_job.hpp"

namespace autotuned::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kTrick = "tricks.trick";

class ExtensionTest : public PluginJobTest {
 protected:
  ExtensionTest() : PluginJobTest("tricks", kTrick, "AUTOTUNED_TEST_TRICKS") {}

  // How an update under a trick compares with one without.
  Comparison compare(const std::string& trick) {
    for (const char* name : {"reference", "candidate"}) {
      value_of(turn(std::string_view(name) == "reference" ? "none" : trick));
      EXPECT_TRUE(job_->restore("initial"));
      value_of(job_->run_steps(3, never));
      value_of(job_->keep(name));
    }
    return value_of(job_->compare("initial", "reference", "candidate"));
  }
};

TEST_F(ExtensionTest, IsUndoneToTheBit) {
  const std::string expected = digest();
  for (const char* trick : {"counts", "halves"}) {
    value_of(turn(trick));
    const std::string under = digest();
    EXPECT_EQ(under == expected, std::string_view(trick) == "counts") << trick;
    value_of(turn("none"));
    EXPECT_EQ(digest(), expected) << trick;
  }
}

TEST_F(ExtensionTest, IsNotLoadedBeforeItsKnobIsTurned) {
  value_of(turn("none"));
  digest();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "notes"));
}

#if defined(__x86_64__)
TEST_F(ExtensionTest, OpensNoPerformanceEvents) {
  if (::prctl(PR_GET_SECCOMP) < 0) GTEST_SKIP() << "this kernel has no seccomp";
  value_of(turn("counts"));
  // Without the filter: EFAULT, because there are no attributes.
  const long event = ::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0);
  const int error = errno;
  EXPECT_EQ(event, -1);
  EXPECT_EQ(error, EPERM);
}
#endif

TEST_F(ExtensionTest, HooksEveryStepOnceAndInterposesTheOperator) {
  value_of(turn("counts"));
  value_of(job_->run_steps(5, never));
  value_of(turn("none"));
  value_of(job_->run_steps(5, never));
  std::ifstream notes(folder_ / "notes");
  std::string line;
  std::getline(notes, line);
  EXPECT_EQ(line, "undone steps=5 batches=5 forwards=5 relus=5");
  value_of(turn("counts"));
  value_of(job_->evaluate(never));
  value_of(turn("none"));
  std::getline(notes, line);
  // Test data come in 3 batches of 20, of which the model answers one or more once more by itself.
  EXPECT_THAT(line, testing::MatchesRegex("undone steps=5 batches=5 forwards=8 relus=(9|10|11)"));
}

TEST_F(ExtensionTest, HalvedOutputsShowInTheComparison) {
  const Comparison comparison = compare("halves");
  ASSERT_FALSE(comparison.parameters.empty());
  EXPECT_LT(comparison.parameters[0].norm_ratio, 0.8);
}

TEST_F(ExtensionTest, AFrozenLayerIsSeen) {
  EXPECT_THAT(error_of("freezes"),
              AllOf(HasSubstr("plugin tricks: apply: hidden.weight is not trained any more"),
                    HasSubstr("only a knob of risk semantics may freeze")));
}

// It has been frozen without the extension as well.
TEST(Extension, LeavesWhatTheRecipeFreezesAsItIs) {
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["freeze"] = {"hidden"};
  const auto job = value_of(load_with(recipe, with(starting(recipe), kTrick, "counts"), "tricks"));
  ASSERT_NE(job, nullptr);
  value_of(job->advance({.steps = 2}, never));
}

TEST_F(ExtensionTest, WhatItForgetsToUndoIsSeen) {
  value_of(turn("forgets"));
  EXPECT_THAT(error_of("none"), AllOf(HasSubstr("plugin tricks"), HasSubstr("undo: hidden.weight"),
                                      HasSubstr("needs a restart")));
}

TEST_F(ExtensionTest, AParameterThatItAddsIsSeen) {
  EXPECT_THAT(error_of("adds"),
              AllOf(HasSubstr("plugin tricks"), HasSubstr("apply: the model has other tensors")));
}

TEST_F(ExtensionTest, WhatItThrowsIsNamed) {
  EXPECT_THAT(error_of("throws"), HasSubstr("plugin tricks: apply: no tricks today"));
  EXPECT_EQ(turn("throws").error().kind, ErrorKind::internal);
}

TEST_F(ExtensionTest, WhatItThrowsInAStepIsNamed) {
  value_of(turn("late"));
  const auto block = job_->run_steps(1, never);
  ASSERT_FALSE(block);
  EXPECT_THAT(block.error().message(),
              HasSubstr("plugin tricks: forward: the rabbit is gone in step 1"));
}

TEST_F(ExtensionTest, LabelsOfAnotherTypeAreRefused) {
  value_of(turn("relabels"));
  const auto block = job_->run_steps(1, never);
  ASSERT_FALSE(block);
  EXPECT_THAT(block.error().message(), HasSubstr("on_batch: leaves images and labels that do not"));
}

TEST_F(ExtensionTest, ItsKnobHasADomain) {
  EXPECT_THAT(error_of("juggles"), AllOf(HasSubstr(kTrick), HasSubstr("found \"juggles\"")));
}

TEST_F(ExtensionTest, AKnobOfNobodyIsRefused) {
  const auto prepared = job_->prepare(with(start_, "tricks.other", true));
  ASSERT_FALSE(prepared);
  EXPECT_THAT(prepared.error().message(), HasSubstr("no such knob"));
}

TEST(Extension, MayBeOnFromTheStart) {
  const recipes::Recipe recipe = small_recipe();
  const auto plain = load(recipe);
  const auto counting =
      value_of(load_with(recipe, with(starting(recipe), kTrick, "counts"), "tricks"));
  ASSERT_NE(counting, nullptr);
  value_of(plain->run_steps(5, never));
  value_of(counting->run_steps(5, never));
  EXPECT_EQ(value_of(plain->digest()), value_of(counting->digest()));
}

}  // namespace
}  // namespace autotuned::trainer
