// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/memory_need.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/trainer/small_job.hpp"
#include "trainer/job/job_check.hpp"
#include "trainer/models/model.hpp"
#include "trainer/ranks/rank_group.hpp"

namespace autotuned::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

double parameters_of(const recipes::Component& spec, input::SampleShape sample) {
  const auto model = make_model(spec, sample);
  EXPECT_TRUE(model) << model.error().message();
  double count = 0;
  for (const at::Tensor& parameter : (*model)->parameters())
    count += static_cast<double>(parameter.numel());
  return count;
}

// What is refused by the bound could not be made.
TEST(MemoryNeed, OfAModelIsALowerBoundNearTheTruth) {
  const recipes::Component vit = {"vit",
                                  {{"size", "tiny"},
                                   {"patch", 4},
                                   {"embed", 96},
                                   {"depth", 4},
                                   {"heads", 3},
                                   {"pool", "token"},
                                   {"patch_dropout", 0.0},
                                   {"classes", 10}}};
  const auto gpt = [](bool is_tied) {
    return recipes::Component{"gpt",
                              {{"layers", 4},
                               {"heads", 4},
                               {"width", 96},
                               {"context", 64},
                               {"vocabulary", 500},
                               {"dropout", 0.0},
                               {"bias", true},
                               {"tied", is_tied}}};
  };
  const input::SampleShape sample{3, 16, 16};
  for (const recipes::Component& spec :
       {recipes::Component{"mlp", {{"hidden", 300}, {"classes", 10}}}, vit}) {
    const double bound = least_parameters(spec, sample);
    EXPECT_LE(bound, parameters_of(spec, sample)) << spec.type;
    EXPECT_GE(bound, 0.9 * parameters_of(spec, sample)) << spec.type;
  }
  for (const bool is_tied : {true, false}) {
    const double bound = least_parameters(gpt(is_tied), {1, 1, 65});
    EXPECT_LE(bound, parameters_of(gpt(is_tied), {1, 1, 65}));
    EXPECT_GE(bound, 0.9 * parameters_of(gpt(is_tied), {1, 1, 65}));
  }
  const recipes::Component unet = {"unet", {{"width", 8}, {"depth", 3}, {"classes", 2}}};
  EXPECT_LE(least_parameters(unet, sample), parameters_of(unet, sample));
  EXPECT_GE(least_parameters(unet, sample), 0.3 * parameters_of(unet, sample));
  EXPECT_EQ(least_parameters({"resnet18", {{"classes", 10}}}, sample), 0.0);
}

TEST(MemoryNeed, ModelsThatDoNotFitAreRefusedWithTheirBytes) {
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["hidden"] = 65'536;
  const input::SampleShape sample{1, 256, 256};  // 4,295 million parameters
  const auto cpu =
      check_memory_of_model(recipe, sample, {.host_bytes = 32 * kGibibyte, .trains_on_cpu = true});
  ASSERT_FALSE(cpu);
  EXPECT_EQ(cpu.error().where, "model");
  EXPECT_EQ(cpu.error().what,
            "at least 4,295,229,440 parameters take 64.0 GiB of memory with their gradients and "
            "the state of sgd and the initial weights, and this machine has 32.0 GiB");
  EXPECT_TRUE(
      check_memory_of_model(recipe, sample, {.host_bytes = 65 * kGibibyte, .trains_on_cpu = true}));
  EXPECT_TRUE(check_memory_of_model(recipe, sample, {.trains_on_cpu = true})) << "not known";
  // A GPU has the rest.
  EXPECT_TRUE(check_memory_of_model(recipe, sample, {.host_bytes = 17 * kGibibyte}));
  EXPECT_FALSE(check_memory_of_model(recipe, sample, {.host_bytes = 15 * kGibibyte}));
  const auto gpu = check_memory_of_model(
      recipe, sample, {.host_bytes = 64 * kGibibyte, .device_bytes = 40 * kGibibyte});
  ASSERT_FALSE(gpu);
  EXPECT_THAT(gpu.error().what, HasSubstr("and the GPU has 40.0 GiB"));
  recipe.train.ranks = 2;
  EXPECT_FALSE(check_memory_of_model(recipe, sample, {.host_bytes = 17 * kGibibyte}));
}

TEST(MemoryNeed, SamplesThatDoNotFitAreRefusedWithTheirBytes) {
  EXPECT_TRUE(check_memory_of_samples(1'000'000'000, 1, {.host_bytes = 4 * kGibibyte}));
  const auto refused = check_memory_of_samples(1'000'000'000, 2, {.host_bytes = 4 * kGibibyte});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "data");
  EXPECT_THAT(refused.error().what,
              AllOf(HasSubstr("the order of 1,000,000,000 samples takes 7.5 GiB of memory"),
                    HasSubstr("this machine has 4.0 GiB")));
}

// Before anything of it is made: neither takes a moment.
TEST(MemoryNeed, ARecipeThatDoesNotFitIsAProblemOfItsModelOrData) {
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["hidden"] = 65'536;
  recipe.data.parameters["shape"] = {1, 256, 256};
  recipe.evaluation.reset();
  const auto model = check_recipe(recipe, starting(recipe), test_machine(), cpu_only(), {});
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ(model->problems.size(), 1U);
  EXPECT_EQ(model->problems[0].key, "model");
  EXPECT_THAT(model->problems[0].error.what, HasSubstr(" parameters take 64.0 GiB of memory"));

  recipe = small_recipe();
  recipe.data.parameters["samples"] = 4'000'000'000;
  const auto data = check_recipe(recipe, starting(recipe), test_machine(), cpu_only(), {});
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_EQ(data->problems.size(), 1U);
  EXPECT_EQ(data->problems[0].key, "data");
  EXPECT_THAT(data->problems[0].error.what, HasSubstr("samples takes 14.9 GiB of memory"));
}

// A rank is told its share of the machine, and the need is that of all ranks.
TEST(MemoryNeed, SeveralRanksNeedNoMoreThanTheyHaveTogether) {
  const Folder folder;
  const auto group = value_of(
      RankGroup::join({.rank = 0, .ranks = 1, .store = folder / "store"}, std::chrono::minutes(1)));
  ASSERT_NE(group, nullptr);
  recipes::Recipe recipe = small_recipe();
  recipe.train.ranks = 2;
  recipe.evaluation.reset();
  // Their order takes 458 MiB in two ranks. The model is what fails next, before anything is made.
  recipe.data.parameters["samples"] = 60'000'000;
  recipe.model.type = "perceptron";
  const auto refusal = [&](std::int64_t mebibytes_of_a_rank) {
    Machine machine = test_machine();
    machine.memory_allowed_bytes = mebibytes_of_a_rank << 20;
    const auto job = Job::load(recipe, starting(recipe), machine, cpu_only(), {}, group.get());
    return job ? std::string() : job.error().what;
  };
  EXPECT_THAT(refusal(200), HasSubstr("and this machine has 400.0 MiB"));
  EXPECT_THAT(refusal(300), HasSubstr("this trainer has no model 'perceptron'"));
}

}  // namespace
}  // namespace autotuned::trainer
