// SPDX-License-Identifier: Apache-2.0
#include "bench/plain_masking.hpp"

#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/trainer/input/jpeg_files.hpp"

namespace autotuned::bench {
namespace {

recipes::Recipe photo_masking() {
  recipes::Recipe recipe;
  recipe.input = {{"decode_jpeg", Json::object()},
                  {"random_crop", {{"size", 256}}},
                  {"random_mask", {{"ratio", 0.25}, {"dilate", "4-neighbour"}}},
                  {"rgb_to_yuv", Json::object()},
                  {"scale", {{"by", "1/255"}}}};
  return recipe;
}

TEST(PlainMasking, KnowsItsRecipe) {
  recipes::Recipe recipe = photo_masking();
  EXPECT_TRUE(PlainMasking::is_of(recipe));
  recipe.input[1].parameters["size"] = 224;
  EXPECT_FALSE(PlainMasking::is_of(recipe));
  recipe = photo_masking();
  recipe.input.pop_back();
  EXPECT_FALSE(PlainMasking::is_of(recipe));
}

// Colours of the picture where it is not masked, and black elsewhere, in about 1 - 0.75^5 of the cells.
TEST(PlainMasking, MasksAndConverts) {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> file = input::encoded({300, 400, 95, 2, 2});
  folder.write("a.jpg", std::string(file.begin(), file.end()));
  const auto dataset = input::open_dataset("jpeg_files", {{"files", (folder / "a.jpg").string()},
                                                          {"repeat_to", 10},
                                                          {"labels", "random"},
                                                          {"classes", 2}});
  ASSERT_TRUE(dataset) << dataset.error().message();
  PlainMasking plain(**dataset, 2, 2);
  EXPECT_GE(plain.load(std::chrono::milliseconds(50)), 2);
  constexpr std::size_t kPlane = std::size_t{256} * 256;
  for (const std::size_t thread : {0U, 1U}) {
    const auto sample = plain.first_sample(thread);
    ASSERT_EQ(sample.size(), 3 * kPlane);
    std::size_t black = 0;
    for (std::size_t i = 0; i < kPlane; ++i) {
      EXPECT_GE(sample[i], 0.0F);
      EXPECT_LE(sample[i], 1.001F);
      if (sample[i] != 0.0F) continue;
      ++black;
      EXPECT_FLOAT_EQ(sample[kPlane + i], 128.0F / 255);
      EXPECT_FLOAT_EQ(sample[2 * kPlane + i], 128.0F / 255);
    }
    EXPECT_NEAR(static_cast<double>(black) / kPlane, 0.76, 0.05);
  }
}

}  // namespace
}  // namespace autotuned::bench
