// SPDX-License-Identifier: Apache-2.0
// Figures of single classes against a plain count.
#include "trainer/evaluation/test_counts.hpp"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "trainer/evaluation/test_figures.hpp"

namespace autotuned::trainer {
namespace {

// Counts for each class the samples with four or fewer higher logits, and what the others were taken for.
TEST(TestCounts, CountsWhatEachClassWasTakenForOverSeveralBatches) {
  constexpr std::int64_t kClasses = 7;
  constexpr std::int64_t kSamples = 240;
  at::manual_seed(1);
  const at::Tensor logits = at::randn({kSamples, kClasses});
  const at::Tensor labels = at::randint(kClasses, {kSamples}, at::kLong);
  TestCounts counts;
  counts.add(logits.narrow(0, 0, 100), labels.narrow(0, 0, 100));
  counts.add(logits.narrow(0, 100, 139), labels.narrow(0, 100, 139));
  counts.add(logits.narrow(0, 239, 1), labels.narrow(0, 239, 1));
  TestResult result;
  result.samples = kSamples;
  counts.tell(result);

  std::vector<std::vector<std::int64_t>> confusion(kClasses, std::vector<std::int64_t>(kClasses));
  int among_five = 0;
  const auto* row = logits.const_data_ptr<float>();
  const auto* label = labels.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < kSamples; ++i, row += kClasses, ++label) {
    const auto taken_for = std::max_element(row, row + kClasses) - row;
    ++confusion[static_cast<std::size_t>(*label)][static_cast<std::size_t>(taken_for)];
    const float own = row[*label];
    among_five += std::count_if(row, row + kClasses, [&](float x) { return x > own; }) < 5 ? 1 : 0;
  }
  EXPECT_EQ(result.confusion, confusion);
  ASSERT_TRUE(result.top5_accuracy);
  EXPECT_DOUBLE_EQ(*result.top5_accuracy, among_five / static_cast<double>(kSamples));
}

TEST(TestCounts, LeaveOutWhatSaysNothing) {
  TestResult few;
  few.samples = 2;
  TestCounts five;
  five.add(at::eye(5).narrow(0, 0, 2), at::tensor(std::vector<std::int64_t>{0, 4}));
  five.tell(few);
  EXPECT_FALSE(few.top5_accuracy);
  EXPECT_EQ(few.confusion.size(), 5U);

  TestResult many;
  many.samples = 1;
  TestCounts thousands;
  thousands.add(at::zeros({1, 1001}), at::tensor(std::vector<std::int64_t>{1000}));
  thousands.tell(many);
  EXPECT_TRUE(many.top5_accuracy);
  EXPECT_TRUE(many.confusion.empty());
}

// A sample of a class that the model cannot name is in no cell.
TEST(TestCounts, TakeNoClassForAnother) {
  TestResult result;
  result.samples = 2;
  TestCounts counts;
  counts.add(at::eye(2).narrow(0, 0, 1).expand({2, 2}),
             at::tensor(std::vector<std::int64_t>{1, 2}));
  counts.tell(result);
  EXPECT_EQ(result.confusion, (std::vector<std::vector<std::int64_t>>{{0, 0}, {1, 0}}));
}

TEST(TestFigures, AreSharesOfRowsAndColumns) {
  TestResult test;
  test.samples = 10;
  test.accuracy = 0.7;
  test.loss = 1.5;
  test.confusion = {{4, 1, 0}, {2, 3, 0}, {0, 0, 0}};
  test.class_names = {"cat", "dog"};
  const Json json = test_json(test);
  EXPECT_EQ(json["test_accuracy"], 0.7);
  EXPECT_EQ(json["test_loss"], 1.5);
  EXPECT_FALSE(json.contains("test_top5_accuracy"));
  EXPECT_EQ(json["test_confusion"], Json::parse("[[4, 1, 0], [2, 3, 0], [0, 0, 0]]"));
  EXPECT_EQ(json["test_classes"], Json::parse(R"([
    {"class": "cat", "samples": 5, "precision": 0.6666666666666666, "recall": 0.8},
    {"class": "dog", "samples": 5, "precision": 0.75, "recall": 0.6},
    {"class": 2, "samples": 0, "precision": null, "recall": null}])"));

  test.top5_accuracy = 1.0;
  EXPECT_EQ(test_json(test)["test_top5_accuracy"], 1.0);
  test.confusion.assign(101, std::vector<std::int64_t>(101, 1));
  const Json larger = test_json(test);
  EXPECT_EQ(larger["test_classes"].size(), 101U);
  EXPECT_FALSE(larger.contains("test_confusion"));
  const Json none = test_json(std::nullopt);
  EXPECT_TRUE(none["test_accuracy"].is_null());
  EXPECT_TRUE(none["test_loss"].is_null());
  EXPECT_EQ(none.size(), 2U);
}

}  // namespace
}  // namespace autotuned::trainer
