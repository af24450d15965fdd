// SPDX-License-Identifier: Apache-2.0
#include "recipes/key_place.hpp"

#include <gtest/gtest.h>

namespace autotuned::recipes {
namespace {

constexpr const char* kText =
    "name: small\n"
    "input:\n"
    "  - to_float\n"
    "  - resize: {size: 8}\n"
    "start: {loader.workers: 2}\n"
    "train:\n"
    "  batch_size: 8\n";

std::string place_of(const std::string& key) {
  return diagnostic_at(kText, "recipe.yaml", key, "is odd").text();
}

TEST(KeyPlace, IsTheDeepestPartThatIsWritten) {
  EXPECT_EQ(place_of("train.batch_size"), "recipe.yaml:7:3: is odd");
  EXPECT_EQ(place_of("train.drop_last"), "recipe.yaml:6:1: is odd");
  EXPECT_EQ(place_of("input[1].resize"), "recipe.yaml:4:5: is odd");
  EXPECT_EQ(place_of("input[0].to_float"), "recipe.yaml:3:5: is odd");
  EXPECT_EQ(place_of("input[7].resize"), "recipe.yaml:2:1: is odd");
  EXPECT_EQ(place_of("start.loader.workers"), "recipe.yaml:5:9: is odd");
}

TEST(KeyPlace, IsTheFileWhereNothingIsWritten) {
  EXPECT_EQ(place_of("model"), "recipe.yaml: is odd");
  EXPECT_EQ(diagnostic_at("{", "recipe.yaml", "model", "is odd").text(), "recipe.yaml: is odd");
}

}  // namespace
}  // namespace autotuned::recipes
