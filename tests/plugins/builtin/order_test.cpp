// SPDX-License-Identifier: Apache-2.0
// Who is tried first, on what a profile said of the recipe photo_masking_input at its start: two CPUs, while
// other programs ran.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::ElementsAre;

Json masked_photos() {
  return situation("photo_masking_cpu");
}

// The named plugins that propose something, by the gain that they expect, largest first.
std::vector<std::string> order_of(std::vector<std::string> plugins, const Json& asked) {
  std::erase_if(plugins, [&](const std::string& plugin) {
    return ask(plugin, asked).at("candidates").empty();
  });
  std::ranges::stable_sort(plugins, std::ranges::greater(), [&](const std::string& plugin) {
    return first_gain(ask(plugin, asked));
  });
  return plugins;
}

const std::vector<std::string> kOfTheInput = {"crop_decoding",  "crop_first",     "device_pixels",
                                              "input_cache",    "input_dilation", "jpeg_index",
                                              "num_workers",    "page_cache",     "point_ops",
                                              "prefetch_depth", "scaled_decoding"};

TEST(Order, OfPhotosIsThatOfWhatTheyCouldSave) {
  EXPECT_THAT(
      order_of(kOfTheInput, masked_photos()),
      ElementsAre("num_workers", "input_cache", "crop_decoding", "input_dilation", "point_ops"));
}

// What comes behind decoding grows as decoding shrinks.
TEST(Order, FollowsTheProfile) {
  Json asked = masked_photos();
  asked["metrics"]["input.decode_ratio"] = 0.1;
  EXPECT_THAT(order_of({"crop_decoding", "input_dilation", "point_ops"}, asked),
              ElementsAre("input_dilation", "point_ops", "crop_decoding"));
}

// Shares are what could be saved at most, so that the tuner can leave out what is too small.
TEST(Order, TellsTheWholeShare) {
  Json asked = masked_photos();
  asked["metrics"]["loader.cost_ratio"] = 0.5;
  asked["metrics"]["input.decode_ratio"] = 0.8;
  EXPECT_NEAR(first_share(ask("crop_decoding", asked)), 0.4, 1e-9);
  EXPECT_NEAR(first_gain(ask("crop_decoding", asked)), 1 / (1 - 0.6 * 0.4), 1e-9);
  EXPECT_NEAR(first_share(ask("point_ops", asked)), 0.1, 1e-9);
  EXPECT_NEAR(first_share(ask("input_dilation", asked)), 0.1, 1e-9);
  asked["job"]["can_move_crop"] = true;
  EXPECT_NEAR(first_share(ask("crop_first", asked)), 0.1, 1e-9);
  asked["job"]["decode_scale"] = "half";
  asked["permissions"]["semantics"] = true;
  EXPECT_NEAR(first_share(ask("scaled_decoding", asked)), 0.4, 1e-9);
  asked["permissions"]["numerics"] = true;
  asked["metrics"]["step.data_wait_ratio"] = 0.5;
  EXPECT_NEAR(first_share(ask("intra_op_threads", asked)), 0.5, 1e-9);
  asked["job"]["device"] = "cuda:0";
  EXPECT_NEAR(first_share(ask("device_pixels", asked)), 0.1, 1e-9);
}

}  // namespace
}  // namespace autotuned::plugins
