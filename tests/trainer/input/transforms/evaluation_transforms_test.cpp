// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/evaluation_transforms.hpp"

#include <gmock/gmock.h>

#include <string>

#include "recipes/schema_table.hpp"

namespace autotuned::input {
namespace {

using testing::ElementsAre;

std::vector<std::string> texts(const std::vector<Transform>& transforms) {
  std::vector<std::string> texts;
  for (const Transform& one : evaluation_transforms(transforms))
    texts.push_back(one.type + one.parameters.dump());
  return texts;
}

TEST(EvaluationTransforms, CutTheMiddleInsteadOfAnywhere) {
  EXPECT_THAT(texts({{"decode"}, {"random_crop", {{"size", 8}}}, {"to_float"}}),
              ElementsAre("decode{}", "center_crop{\"size\":8}", "to_float{}"));
  EXPECT_THAT(texts({{"random_crop", {{"size", {8, 9}}}}}),
              ElementsAre("center_crop{\"size\":[8,9]}"));
}

// As torchvision's references: 224 after a resize of the shorter side to 256.
TEST(EvaluationTransforms, ResizeWithAMarginInsteadOfAPartOfAnySize) {
  EXPECT_THAT(texts({{"random_resized_crop", {{"size", 224}, {"scale", {0.1, 1}}}}}),
              ElementsAre("resize_shorter{\"size\":256}", "center_crop{\"size\":224}"));
  EXPECT_THAT(texts({{"random_resized_crop", {{"size", {32, 176}}}}}),
              ElementsAre("resize_shorter{\"size\":[37,201]}", "center_crop{\"size\":[32,176]}"));
}

TEST(EvaluationTransforms, LeaveOutWhatElseIsRandomAndKeepTheRest) {
  EXPECT_THAT(texts({{"resize", {{"size", 9}}},
                     {"color_jitter", {{"hue", 0.1}}},
                     {"random_flip"},
                     {"random_mask", {{"ratio", 1.0}}},
                     {"random_rotation", {{"degrees", 5}}},
                     {"random_erasing"},
                     {"rand_augment"},
                     {"pad", {{"by", 2}}},
                     {"rgb_to_yuv"},
                     {"scale", {{"by", 2}}},
                     {"normalize", {{"mean", 0}, {"std", 1}}},
                     {"center_crop", {{"size", 3}}}}),
              ElementsAre("resize{\"size\":9}", "pad{\"by\":2}", "rgb_to_yuv{}", "scale{\"by\":2}",
                          "normalize{\"mean\":0,\"std\":1}", "center_crop{\"size\":3}"));
  EXPECT_THAT(texts({}), ElementsAre());
}

// The checker of recipes refuses in evaluate.input what draws here; of each it says what to do instead.
TEST(EvaluationTransforms, AreRandomWhereTheRecipeSaysSo) {
  for (const recipes::Variant& variant : recipes::transform_types())
    EXPECT_EQ(is_random(variant.name), !variant.remedy_for_evaluation.empty()) << variant.name;
}

}  // namespace
}  // namespace autotuned::input
