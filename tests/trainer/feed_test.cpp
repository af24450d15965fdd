// SPDX-License-Identifier: Apache-2.0
// How the recipe's transforms reach the step, through a whole job.
#include <gmock/gmock.h>

#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

recipes::Recipe recipe_with(std::vector<recipes::Typed> input) {
  recipes::Recipe recipe = small_recipe();
  recipe.data.parameters["shape"] = {3, 12, 10};
  recipe.evaluation->data.parameters["shape"] = {3, 12, 10};
  recipe.input = std::move(input);
  return recipe;
}

recipes::Recipe yuv_recipe() {
  return recipe_with({{"random_crop", {{"size", 8}}},
                      {"random_mask", {{"ratio", 0.25}, {"dilate", "4-neighbour"}}},
                      {"rgb_to_yuv", Json::object()},
                      {"scale", {{"by", "1/255"}}}});
}

// The losses of two epochs and a half from the initial state.
std::vector<double> losses_of(Job& job, const Configuration& configuration) {
  value_of(job.prepare(configuration));
  EXPECT_TRUE(job.restore("initial"));
  return value_of(job.run_steps(25, never)).losses;
}

TEST(TransformsOfAJob, GiveTheModelTheirShape) {
  const auto job = load(yuv_recipe());
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().sample_shape, (std::vector<std::int64_t>{3, 8, 8}));
}

TEST(TransformsOfAJob, DrawTheSameUnderEveryConfiguration) {
  const auto job = load(yuv_recipe());
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(yuv_recipe());
  const auto expected = losses_of(*job, start);
  ASSERT_EQ(expected.size(), 25U);
  EXPECT_EQ(losses_of(*job, with(start, "loader.workers", std::int64_t{2})), expected);
}

TEST(TransformsOfAJob, RefuseUint8WhereFloatsAreMadeAndDoNotSuggestIt) {
  const auto job = load(yuv_recipe());
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(yuv_recipe());
  const auto expected = losses_of(*job, start);
  const auto refused = job->prepare(with(start, "transfer.dtype", "uint8"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("transfer.dtype: batches cannot travel as uint8"));
  EXPECT_THAT(refused.error().message(), HasSubstr("`rgb_to_yuv`"));
  EXPECT_EQ(losses_of(*job, start), expected);
  EXPECT_EQ(value_of(job->profile(2, 0, never)).metrics.at("loader.float_from_uint8_ratio"), 0.0);
}

TEST(TransformsOfAJob, TravelAsBytesWhereATableMakesTheFloats) {
  const recipes::Recipe recipe = recipe_with({{"resize", {{"size", {7, 9}}}},
                                              {"to_float", Json::object()},
                                              {"normalize", {{"mean", 0.5}, {"std", 0.5}}}});
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(recipe);
  EXPECT_EQ(value_of(job->profile(2, 0, never)).metrics.at("loader.float_from_uint8_ratio"), 1.0);
  EXPECT_EQ(losses_of(*job, with(start, "transfer.dtype", "uint8")), losses_of(*job, start));
}

TEST(TransformsOfAJob, AreRefusedBeforeAnythingIsTrained) {
  const auto message = [](const recipes::Recipe& recipe) {
    const auto job = Job::load(recipe, starting(recipe), test_machine(), cpu_only());
    return job ? std::string() : job.error().message();
  };
  EXPECT_THAT(message(recipe_with({{"random_crop", {{"size", 11}}}})),
              HasSubstr("input[0].random_crop: a crop of 11 x 11 pixels does not fit"));
  recipes::Recipe smaller = recipe_with({{"center_crop", {{"size", 9}}}});
  smaller.evaluation->data.parameters["shape"] = {3, 8, 8};
  EXPECT_THAT(message(smaller), HasSubstr("evaluate.data, input[0].center_crop: a crop of 9 x 9"));
  recipes::Recipe other = recipe_with({});
  other.evaluation->data.parameters["shape"] = {3, 8, 8};
  EXPECT_THAT(message(other), HasSubstr("evaluate.data: its samples have another shape"));
  // Of different sizes, but not where the model sees them.
  other.input = {{"center_crop", {{"size", 8}}}};
  EXPECT_EQ(message(other), "");
}

}  // namespace
}  // namespace autotuned::trainer
