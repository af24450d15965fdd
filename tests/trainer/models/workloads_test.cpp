// SPDX-License-Identifier: Apache-2.0
// A workload plugin in a job: trained, tuned, kept and evaluated like a built-in, and its errors named.
#include <gmock/gmock.h>

#include "tests/golden.hpp"
#include "tests/trainer/plugin_job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {
namespace {

using testing::ElementsAre;

recipes::Component of_tiny(Json parameters, int line) {
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

TEST(Workload, MistakesAreNamedWithTheirLine) {
  tests::Cases cases;
  const auto refuse = [&cases](const char* given, const recipes::Recipe& recipe) {
    cases.add(given, error_of(recipe));
  };
  recipes::Recipe own_loss = small_recipe();
  own_loss.file = "/jobs/tiny.yaml";
  own_loss.loss = "plugin";
  own_loss.loss_parameters = {{"plugin", "tinny"}, {"line", 5}};
  refuse("a loss that is not there", own_loss);
  recipes::Recipe other = tiny_recipe();
  other.model.parameters["plugin"] = "tinny";
  refuse("a model that is not there", other);
  for (const auto& [given, parameters] :
       {std::pair<const char*, Json>{"an unknown parameter", {{"hiden", 8}}},
        std::pair<const char*, Json>{"text for a number", {{"hidden", "many"}}},
        std::pair<const char*, Json>{"a number that is too small", {{"hidden", 0}}},
        std::pair<const char*, Json>{"a forward that throws", {{"fault", "forward"}}},
        std::pair<const char*, Json>{"outputs of a wrong shape", {{"fault", "shape"}}}}) {
    recipes::Recipe recipe = tiny_recipe();
    recipe.model = of_tiny(parameters, 3);
    refuse(given, recipe);
  }
  for (const auto& [given, parameters] :
       {std::pair<const char*, Json>{"a parameter is missing", {{"sample", 8}}},
        std::pair<const char*, Json>{"data of no size", {{"samples", 0}}},
        std::pair<const char*, Json>{"too many classes", {{"samples", 200}, {"classes", 6}}}}) {
    recipes::Recipe recipe = tiny_recipe();
    recipe.data = of_tiny(parameters, 4);
    refuse(given, recipe);
  }
  tests::expect_golden("trainer/models/golden/workloads.txt", cases.text());
}

TEST(Workload, FaultsInABlockAreNamed) {
  tests::Cases cases;
  const auto expect_fault = [&cases](const char* given, const recipes::Recipe& recipe) {
    const auto job = value_of(load_with(recipe, starting(recipe), "tiny"));
    ASSERT_NE(job, nullptr);
    const auto block = job->run_steps(1, never);
    ASSERT_FALSE(block) << given;
    cases.add(given, block.error().message());
  };
  recipes::Recipe later = tiny_recipe();
  later.model = of_tiny({{"fault", "later"}}, 3);
  expect_fault("a forward that throws later", later);
  for (const char* fault : {"read", "label"}) {
    recipes::Recipe recipe = tiny_recipe();
    recipe.data = of_tiny({{"samples", 200}, {"fault", fault}}, 4);
    recipe.data.parameters["shuffle"] = false;
    expect_fault(fault, recipe);
  }
  tests::expect_golden("trainer/models/golden/workload_faults.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::trainer
