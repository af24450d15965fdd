// SPDX-License-Identifier: Apache-2.0
// A workload plugin in a job: trained, tuned, kept and evaluated like a built-in, and its errors named.
#include <gmock/gmock.h>

#include "tests/trainer/plugin_job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

recipes::Typed of_tiny(Json parameters, int line) {
  return {"plugin", {{"plugin", "tiny"}, {"parameters", std::move(parameters)}, {"line", line}}};
}

recipes::Recipe tiny_recipe() {
  recipes::Recipe recipe = small_recipe();
  recipe.file = "/jobs/tiny.yaml";
  recipe.model = of_tiny({{"hidden", 8}}, 3);
  recipe.data = of_tiny({{"samples", 200}}, 4);
  recipe.data.parameters["shuffle"] = true;
  recipe.evaluation->data = of_tiny({{"samples", 50}}, 9);
  recipe.input = {{"scale", {{"by", 1.0 / 255}}}};
  return recipe;
}

std::string error_of(const recipes::Recipe& recipe) {
  const auto job = load_with(recipe, starting(recipe), "tiny");
  return job ? "" : job.error().message();
}

std::string digest_after(Job& job, std::int64_t steps) {
  value_of(job.run_steps(steps, never));
  return value_of(job.digest());
}

TEST(Workload, IsAJobLikeAnyOther) {
  const auto job = value_of(load_with(tiny_recipe(), starting(tiny_recipe()), "tiny"));
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().parameters, 16 * 8 + 8 + 8 * 4 + 4);
  EXPECT_THAT(job->facts().sample_shape, ElementsAre(1, 4, 4));
  EXPECT_EQ(job->facts().classes, 4);
  const double before = value_of(job->evaluate(never)).loss;
  value_of(job->run_steps(200, never));
  const TestResult after = value_of(job->evaluate(never));
  EXPECT_LT(after.loss, before / 2);
  EXPECT_GT(after.accuracy, 0.9);
  EXPECT_EQ(after.samples, 50);
}

TEST(Workload, ObeysKnobsAndTrainsTheSameBits) {
  const recipes::Recipe recipe = tiny_recipe();
  const Configuration start = starting(recipe);
  const auto job = value_of(load_with(recipe, start, "tiny"));
  ASSERT_NE(job, nullptr);
  const std::string expected = digest_after(*job, 25);
  for (const auto& [knob, value] :
       {std::pair<const char*, KnobValue>{"loader.workers", std::int64_t{2}},
        std::pair<const char*, KnobValue>{"transfer.dtype", "uint8"},
        std::pair<const char*, KnobValue>{"optimizer.set_to_none", false}}) {
    value_of(job->prepare(with(start, knob, value)));
    ASSERT_TRUE(job->restore("initial"));
    EXPECT_EQ(digest_after(*job, 25), expected) << knob;
  }
  ASSERT_TRUE(job->restore("initial"));
  EXPECT_NE(digest_after(*job, 24), expected);  // the comparison can fail
}

TEST(Workload, ComesBackFromACheckpointWithItsBuffers) {
  const Folder folder;
  const auto one = value_of(load_with(tiny_recipe(), starting(tiny_recipe()), "tiny"));
  ASSERT_NE(one, nullptr);
  value_of(one->run_steps(7, never));
  value_of(one->keep("here"));
  value_of(one->export_to(folder / "checkpoint", "here", ""));
  const std::string expected = digest_after(*one, 7);

  const auto two = value_of(load_with(tiny_recipe(), starting(tiny_recipe()), "tiny"));
  ASSERT_NE(two, nullptr);
  value_of(two->import_from(folder / "checkpoint", "here"));
  ASSERT_TRUE(two->restore("here"));
  EXPECT_EQ(digest_after(*two, 7), expected);
}

TEST(Workload, MayHaveALossOfItsOwn) {
  recipes::Recipe recipe = tiny_recipe();
  const auto usual = value_of(load_with(recipe, starting(recipe), "tiny"));
  recipe.loss = "plugin";
  const auto own = value_of(load_with(recipe, starting(recipe), "tiny"));
  ASSERT_TRUE(usual != nullptr && own != nullptr);
  const double full = value_of(usual->run_steps(1, never)).losses.at(0);
  EXPECT_DOUBLE_EQ(value_of(own->run_steps(1, never)).losses.at(0), full / 2);
}

// With a model of ours that classifies pictures, and with the one that takes tokens.
TEST(Workload, ALossGoesWithAnyModelAndIsTheSameToTheBit) {
  for (recipes::Recipe recipe : {small_recipe(), small_cnn_recipe(), small_token_recipe()}) {
    const std::string model = recipe.model.type;
    const auto usual = value_of(load_with(recipe, starting(recipe), "usual_loss"));
    recipe.loss = "plugin";
    recipe.loss_parameters = {{"plugin", "usual_loss"}, {"line", 5}};
    const auto own = value_of(load_with(recipe, starting(recipe), "usual_loss"));
    ASSERT_TRUE(usual != nullptr && own != nullptr) << model;
    const std::vector<double> losses = value_of(usual->run_steps(25, never)).losses;
    EXPECT_EQ(value_of(own->run_steps(25, never)).losses, losses) << model;
    EXPECT_EQ(value_of(own->digest()), value_of(usual->digest())) << model;
    const TestResult wanted = value_of(usual->evaluate(never));
    const TestResult found = value_of(own->evaluate(never));
    EXPECT_EQ(found.loss, wanted.loss) << model;
    EXPECT_EQ(found.accuracy, wanted.accuracy) << model;
    // e to the power of a loss that may be any is no perplexity.
    EXPECT_EQ(wanted.tokens.has_value(), model == "gpt");
    EXPECT_FALSE(found.tokens) << model;
  }
}

TEST(Workload, ALossThatIsNotThereIsNamed) {
  recipes::Recipe recipe = small_recipe();
  recipe.file = "/jobs/tiny.yaml";
  recipe.loss = "plugin";
  recipe.loss_parameters = {{"plugin", "tinny"}, {"line", 5}};
  EXPECT_THAT(error_of(recipe),
              AllOf(HasSubstr("/jobs/tiny.yaml:5, plugin tinny"), HasSubstr("no such workload")));
}

TEST(Workload, AnUnknownParameterIsNamedWithItsLine) {
  recipes::Recipe recipe = tiny_recipe();
  recipe.model = of_tiny({{"hiden", 8}}, 3);
  EXPECT_THAT(error_of(recipe), AllOf(HasSubstr("/jobs/tiny.yaml:3, plugin tiny"),
                                      HasSubstr("no parameter 'hiden'; known are classes, fault, "
                                                "hidden, wait_ms")));
  recipe = tiny_recipe();
  recipe.data = of_tiny({{"sample", 8}}, 4);
  EXPECT_THAT(error_of(recipe), AllOf(HasSubstr("/jobs/tiny.yaml:4, plugin tiny"),
                                      HasSubstr("the parameter 'samples' is missing")));
}

TEST(Workload, AParameterOfAWrongKindIsNamed) {
  recipes::Recipe recipe = tiny_recipe();
  recipe.model = of_tiny({{"hidden", "many"}}, 3);
  EXPECT_THAT(error_of(recipe), HasSubstr("'hidden': expected an integer, found \"many\""));
  recipe.model = of_tiny({{"hidden", 0}}, 3);
  EXPECT_THAT(error_of(recipe), HasSubstr("expected an integer from 1 to 1024, found 0"));
}

TEST(Workload, AForwardThatThrowsIsNamed) {
  recipes::Recipe recipe = tiny_recipe();
  recipe.model = of_tiny({{"fault", "forward"}}, 3);
  EXPECT_THAT(error_of(recipe),
              AllOf(HasSubstr(":3, plugin tiny"), HasSubstr("forward: the network is tired")));
}

TEST(Workload, AForwardThatThrowsLaterIsNamed) {
  recipes::Recipe recipe = tiny_recipe();
  recipe.model = of_tiny({{"fault", "later"}}, 3);
  const auto job = value_of(load_with(recipe, starting(recipe), "tiny"));
  ASSERT_NE(job, nullptr);
  const auto block = job->run_steps(1, never);
  ASSERT_FALSE(block);
  EXPECT_THAT(block.error().message(), AllOf(HasSubstr(":3, plugin tiny"),
                                             HasSubstr("forward: an exception of an unknown")));
}

TEST(Workload, AWrongShapeIsNamed) {
  recipes::Recipe recipe = tiny_recipe();
  recipe.model = of_tiny({{"fault", "shape"}}, 3);
  EXPECT_THAT(error_of(recipe), AllOf(HasSubstr(":3, plugin tiny"), HasSubstr("[2, 4, 1]"),
                                      HasSubstr("(samples, classes)")));
}

TEST(Workload, DataThatFailIsNamed) {
  for (const auto& [fault, text] : {std::pair{"read", "read: the disk is gone"},
                                    std::pair{"label", "is 100, expected 0 to 3"}}) {
    recipes::Recipe recipe = tiny_recipe();
    recipe.data = of_tiny({{"samples", 200}, {"fault", fault}}, 4);
    recipe.data.parameters["shuffle"] = false;
    const auto job = value_of(load_with(recipe, starting(recipe), "tiny"));
    ASSERT_NE(job, nullptr);
    const auto block = job->run_steps(1, never);
    ASSERT_FALSE(block);
    EXPECT_THAT(block.error().message(), AllOf(HasSubstr(":4, plugin tiny"), HasSubstr(text)));
  }
}

TEST(Workload, DataOfNoSizeAreNamed) {
  recipes::Recipe recipe = tiny_recipe();
  recipe.data = of_tiny({{"samples", 0}}, 4);
  EXPECT_THAT(error_of(recipe), HasSubstr("size() is 0, expected 1 to"));
}

TEST(Workload, OneThatIsNotThereIsNamed) {
  recipes::Recipe recipe = tiny_recipe();
  recipe.model.parameters["plugin"] = "tinny";
  EXPECT_THAT(error_of(recipe),
              AllOf(HasSubstr(":3, plugin tinny"), HasSubstr("no such workload")));
}

TEST(Workload, TooManyClassesAreSeen) {
  recipes::Recipe recipe = tiny_recipe();
  recipe.data = of_tiny({{"samples", 200}, {"classes", 6}}, 4);
  EXPECT_THAT(error_of(recipe), HasSubstr("the data has 6 classes, the model 4"));
}

}  // namespace
}  // namespace autotuned::trainer
