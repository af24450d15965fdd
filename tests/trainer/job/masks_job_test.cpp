// SPDX-License-Identifier: Apache-2.0
// Segmentation: training, evaluation and figures of class masks, and that knobs change nothing.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/input/png_file.hpp"
#include "tests/trainer/job/whole_training.hpp"
#include "trainer/evaluation/best_evaluation.hpp"
#include "trainer/evaluation/test_figures.hpp"
#include "trainer/evaluation/test_masks.hpp"
#include "trainer/feed/feed_size.hpp"
#include "trainer/job/job_check.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

recipes::Component discs(std::int64_t samples, std::int64_t classes = 3) {
  return {"synthetic_masks",
          {{"samples", samples}, {"shape", {1, 24, 24}}, {"classes", classes}, {"shuffle", true}}};
}

// On parts of 16 x 16 pixels.
recipes::Recipe mask_recipe(const std::string& loss = "cross_entropy") {
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"unet", {{"width", 4}, {"depth", 2}, {"classes", 3}}};
  recipe.data = discs(80);
  recipe.input = {{"random_flip", Json::object()},
                  {"random_crop", {{"size", 16}}},
                  {"scale", {{"by", "1/255"}}},
                  {"normalize", {{"mean", 0.5}, {"std", 0.25}}}};
  recipe.loss = loss;
  recipe.train = {.epochs = 6, .steps = {}, .batch_size = 10, .drop_last = true};
  recipe.evaluation = recipes::Evaluation{.data = discs(30), .best_by = "miou"};
  return recipe;
}

std::string message_of(const recipes::Recipe& recipe) {
  const auto job = Job::load(recipe, starting(recipe), test_machine(), cpu_only());
  return job ? std::string() : job.error().message();
}

TEST(TestMasks, AreThoseOfAPlainCount) {
  constexpr std::int64_t kClasses = 4;
  at::manual_seed(3);
  const at::Tensor logits = at::randn({7, kClasses, 5, 6});
  logits.select(1, 3).fill_(-9);  // never found
  at::Tensor masks = at::randint(0, 3, {7, 5, 6}, at::kLong);
  masks.masked_fill_(at::rand({7, 5, 6}).lt(0.2), static_cast<std::int64_t>(input::kNoClass));
  TestMasks counts;
  counts.add(logits.narrow(0, 0, 4), masks.narrow(0, 0, 4));
  counts.add(logits.narrow(0, 4, 3), masks.narrow(0, 4, 3));
  TestResult result;
  result.samples = 7;
  counts.tell(result);
  ASSERT_TRUE(result.masks && result.masks->miou);

  const at::Tensor found = logits.argmax(1);
  const at::Tensor is_counted = masks.ne(static_cast<std::int64_t>(input::kNoClass));
  EXPECT_EQ(result.masks->pixels, is_counted.sum().item<std::int64_t>());
  EXPECT_DOUBLE_EQ(result.accuracy,
                   found.eq(masks).sum().item<double>() / is_counted.sum().item<double>());
  double sum = 0;
  for (std::int64_t k = 0; k < 3; ++k) {
    const at::Tensor is_found = found.eq(k).logical_and(is_counted);
    const double both = is_found.logical_and(masks.eq(k)).sum().item<double>();
    const double either = is_found.logical_or(masks.eq(k)).sum().item<double>();
    EXPECT_DOUBLE_EQ(result.masks->ious.at(static_cast<std::size_t>(k)).value_or(-1),
                     both / either);
    sum += both / either;
  }
  EXPECT_FALSE(result.masks->ious.at(3));  // in no mask, and never found
  EXPECT_DOUBLE_EQ(*result.masks->miou, sum / 3);

  result.class_names = {"ground", "cat", "dog", "horse"};
  const Json json = test_json(result);
  EXPECT_EQ(json.at("test_miou"), *result.masks->miou);
  EXPECT_EQ(json.at("test_accuracy"), result.accuracy);
  EXPECT_EQ(json.at("test_classes").at(1).at("class"), "cat");
  EXPECT_EQ(json.at("test_classes").at(1).at("iou"), *result.masks->ious[1]);
  EXPECT_TRUE(json.at("test_classes").at(1).contains("pixels"));
  EXPECT_TRUE(json.at("test_classes").at(3).at("iou").is_null());
  EXPECT_EQ(json.at("test_confusion").size(), 4U);
  EXPECT_EQ(evaluation_frame(result, 1).at("miou"), json.at("test_miou"));
}

TEST(TestMasks, WithoutAPixelThatCountsHaveNoFigure) {
  TestMasks counts;
  counts.add(at::zeros({1, 2, 3, 3}),
             at::full({1, 3, 3}, static_cast<std::int64_t>(input::kNoClass), at::kLong));
  TestResult result{.samples = 1};
  counts.tell(result);
  ASSERT_TRUE(result.masks);
  EXPECT_FALSE(result.masks->miou);
  EXPECT_TRUE(test_json(result).at("test_miou").is_null());
}

TEST(MaskJob, LearnsThem) {
  for (const char* const loss : {"cross_entropy", "dice", "dice_ce"}) {
    SCOPED_TRACE(loss);
    const auto job = load(mask_recipe(loss));
    ASSERT_NE(job, nullptr);
    const TestResult before = value_of(job->evaluate(never));
    ASSERT_TRUE(before.masks && before.masks->miou);
    const Folder folder;
    const auto [summary, steps, evaluations] = trained(*job, folder / "c");
    ASSERT_TRUE(summary.test && summary.test->masks && summary.test->masks->miou);
    EXPECT_LT(summary.test->loss, before.loss);
    EXPECT_GT(*summary.test->masks->miou, *before.masks->miou);
    ASSERT_EQ(evaluations.size(), 6U);
    EXPECT_EQ(evaluations.back().at("miou"), *summary.test->masks->miou);
    EXPECT_EQ(evaluations.back().at("accuracy"), summary.test->accuracy);
  }
}

// What reaches a step is the same in every configuration of the loader; so are the steps.
TEST(MaskJob, IsTheSameWhateverLoadsIt) {
  const recipes::Recipe recipe = mask_recipe();
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(recipe);
  const CheckedSteps expected = checked_steps(*job, start, 6);
  ASSERT_EQ(expected.inputs.size(), 6U);
  EXPECT_NE(expected.inputs[0].labels, expected.inputs[1].labels);
  for (const Configuration& other :
       {with(start, "loader.workers", std::int64_t{2}), with(start, "transfer.dtype", "uint8"),
        with(start, "input.order", "crop_first"), with(start, "input.point_ops", "fused"),
        with(with(start, "input.cache", "raw"), "loader.workers", std::int64_t{1})}) {
    expect_same_steps(checked_steps(*job, other, 6), expected);
  }
}

// A loss is that of each picture by itself, so the size of batches does not matter.
TEST(MaskJob, IsEvaluatedAlikeInAnyBatch) {
  for (const char* const loss : {"cross_entropy", "dice_ce"}) {
    const recipes::Recipe recipe = mask_recipe(loss);
    const auto job = load(recipe);
    ASSERT_NE(job, nullptr);
    const TestResult expected = value_of(job->evaluate(never));
    EXPECT_EQ(expected.samples, 30);
    value_of(job->prepare(with(starting(recipe), "batch_size", std::int64_t{7})));
    const TestResult other = value_of(job->evaluate(never));
    EXPECT_NEAR(other.loss, expected.loss, 1e-5);
    ASSERT_TRUE(other.masks && expected.masks && other.masks->miou && expected.masks->miou);
    EXPECT_EQ(other.masks->pixels, expected.masks->pixels);
    EXPECT_NEAR(*other.masks->miou, *expected.masks->miou, 1e-3);
  }
}

TEST(MaskJob, SplitsAndAccumulates) {
  recipes::Recipe recipe = mask_recipe("dice");
  recipe.evaluation = recipes::Evaluation{.data = {}, .split_ratio = 0.25, .best_by = "miou"};
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(value_of(job->evaluate(never)).samples, 20);
  recipe.step_rules.accumulate = 2;
  const auto in_parts = load(recipe);
  ASSERT_NE(in_parts, nullptr);
  EXPECT_EQ(value_of(in_parts->run_steps(2, never)).steps, 2);
}

TEST(MaskJob, SaysWhatDoesNotFit) {
  tests::Cases cases;
  recipes::Recipe whole = mask_recipe();
  whole.model = {"mlp", {{"hidden", 4}, {"classes", 3}}};
  cases.add("a model of whole samples", message_of(whole));
  recipes::Recipe of_classes = small_recipe();
  of_classes.model = mask_recipe().model;
  cases.add("a model of pixels with classes", message_of(of_classes));
  cases.add("a loss of tags", message_of(mask_recipe("bce")));
  recipes::Recipe few = mask_recipe();
  few.data = discs(80, 4);
  few.evaluation->data = discs(30, 4);
  cases.add("too many classes", message_of(few));
  recipes::Recipe other = mask_recipe();
  other.evaluation->data = discs(30, 2);
  cases.add("fewer classes to test on", message_of(other));
  other.evaluation->data = small_recipe().data;
  cases.add("targets of classes to test on", message_of(other));
  recipes::Recipe mixed = mask_recipe();
  mixed.step_rules.mixup_alpha = 0.2;
  cases.add("mixed samples", message_of(mixed));
  recipes::Recipe odd = mask_recipe();
  odd.input[1].parameters["size"] = 18;
  cases.add("an odd size", message_of(odd));
  recipes::Recipe many = mask_recipe();
  many.model.parameters["classes"] = 256;
  cases.add("more outputs than a mask has classes", message_of(many));
  tests::expect_golden("trainer/job/golden/masks.txt", cases.text());
}

TEST(MaskJob, IsNotEvaluatedWithoutAPixelThatCounts) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& part, std::uint8_t number) {
    for (const char* const name : {"a", "b"}) {
      folder.write(part + "/images/" + name + ".png",
                   input::png_file(8, 8, std::vector<std::uint8_t>(64, 7)));
      folder.write(part + "/masks/" + name + ".png",
                   input::png_file(8, 8, std::vector<std::uint8_t>(64, number)));
    }
    return recipes::Component{"image_masks",
                              {{"files", (folder / (part + "/images/*.png")).string()},
                               {"masks", (folder / (part + "/masks/*.png")).string()},
                               {"classes", 3}}};
  };
  recipes::Recipe recipe = mask_recipe();
  recipe.data = write("train", 1);
  recipe.evaluation->data = write("test", input::kNoClass);
  recipe.input = {{"decode", Json::object()},
                  {"scale", {{"by", "1/255"}}},
                  {"normalize", {{"mean", 0.5}, {"std", 0.25}}}};
  recipe.train.batch_size = 2;
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const auto result = job->evaluate(never);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::invalid);
  EXPECT_THAT(result.error().message(), HasSubstr("evaluate.data: no pixel of its masks counts"));
}

TEST(MaskJob, IsCheckedWithoutAStep) {
  const recipes::Recipe recipe = mask_recipe();
  const auto found = check_recipe(recipe, starting(recipe), test_machine(), cpu_only(), {});
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_TRUE(found->problems.empty());
}

TEST(MaskJob, SendsMasksAsBytes) {
  const auto pipeline = input::Pipeline::compile(input::type_of(input::Element::uint8, {3, 20, 30}),
                                                 {}, 1, {}, /*has_masks=*/true);
  ASSERT_TRUE(pipeline);
  EXPECT_EQ(sample_bytes({}, *pipeline, {input::TargetKind::class_mask, 1}), 3 * 600 * 4 + 600);
}

TEST(BestByTarget, GoesByTheMeanIou) {
  const auto of = [](std::optional<double> miou) {
    TestResult result{.samples = 9, .accuracy = 0.5, .loss = 1.0};
    result.masks = MaskFigures{.pixels = 9, .miou = miou, .ious = {}};
    return result;
  };
  BestEvaluation best(recipes::Evaluation{.best_by = "miou"});
  EXPECT_TRUE(best.take(of(0.2), 1));
  EXPECT_FALSE(best.take(of(0.1), 2));
  EXPECT_FALSE(best.has_figure(of(std::nullopt)));
  EXPECT_TRUE(best.take(of(0.4), 3));
}

}  // namespace
}  // namespace autotuned::trainer
