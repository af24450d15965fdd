// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/model/prediction_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace autotuned::daemon {
namespace {

const std::vector<std::string> kNames = {"cat", "dog"};

Json prediction(const char* target, const Json& outputs) {
  return {{"file", "/srv/a.png"}, {"target", target}, {"outputs", outputs}};
}

TEST(PredictionText, NamesClassesWithTheirProbabilities) {
  const Json told = prediction("classes", {{{"output", 1}, {"probability", 0.93125}},
                                           {{"output", 0}, {"probability", 0.05}},
                                           {{"output", 2}, {"probability", 0.01875}}});
  EXPECT_EQ(prediction_text(told, kNames), "dog 93.1 %, cat 5.0 %, class 2 1.9 %");
  EXPECT_EQ(
      prediction_text(prediction("classes", Json::array({{{"output", 0}, {"value", 1.25}}})), {}),
      "class 0 1.25");
  EXPECT_EQ(
      prediction_text(
          prediction("classes", Json::array({{{"output", 0}, {"probability", nullptr}}})), {}),
      "class 0 ?");
}

TEST(PredictionText, NamesLikelyTags) {
  const Json both = {{{"output", 0}, {"probability", 0.75}}, {{"output", 1}, {"probability", 0.5}}};
  EXPECT_EQ(prediction_text(prediction("tags", both), kNames), "cat 75.0 %");
  const Json none = {{{"output", 0}, {"probability", 0.25}}, {{"output", 1}, {"probability", 0.5}}};
  EXPECT_EQ(prediction_text(prediction("tags", none), kNames), "no tag; most likely dog 50.0 %");
}

TEST(PredictionText, TellsNumbersAndMasks) {
  EXPECT_EQ(prediction_text(prediction("numbers", {{{"output", 0}, {"value", 34.21}},
                                                   {{"output", 2}, {"value", -0.0000012}}}),
                            kNames),
            "cat 34.21, number 2 -1.2e-06");
  Json mask =
      prediction("masks", {{{"output", 1}, {"share", 0.75}}, {{"output", 0}, {"share", 0.25}}});
  mask["height"] = 128;
  mask["width"] = 96;
  EXPECT_EQ(prediction_text(mask, kNames), "128 x 96: dog 75.0 %, cat 25.0 %");
  mask["mask"] = "masks/a.png";
  EXPECT_EQ(prediction_text(mask, kNames), "128 x 96: dog 75.0 %, cat 25.0 % → masks/a.png");
}

TEST(PredictionText, AsJsonHasNumberAndNameOfEachOutput) {
  const Json told = prediction(
      "classes", {{{"output", 1}, {"probability", 0.75}}, {{"output", 2}, {"probability", 0.25}}});
  const Json json = prediction_json(told, "a.png", kNames);
  EXPECT_EQ(json.at("file"), "a.png");
  EXPECT_EQ(json.at("target"), "classes");
  EXPECT_EQ(json.at("outputs").at(0),
            (Json{{"number", 1}, {"name", "dog"}, {"probability", 0.75}}));
  EXPECT_EQ(json.at("outputs").at(1),
            (Json{{"number", 2}, {"name", nullptr}, {"probability", 0.25}}));
}

TEST(PredictionText, LinesUpBehindNamesOfWideCharacters) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"a.jpg", "a.jpg   "},
      {"é.jpg", "é.jpg   "},
      {"写.jpg", "写.jpg  "},
      {"写真.jpg", "写真.jpg"},
      {"a longer name.jpg", "a longer name.jpg"}};
  for (const auto& [name, expected] : names)
    EXPECT_EQ(padded_to(name, 8), expected);
}

// A trainer may be another program.
TEST(PredictionText, OfAnOddAnswerIsNoFailure) {
  EXPECT_EQ(prediction_text(Json::array({1}), kNames), "");
  EXPECT_EQ(prediction_text(prediction("classes", Json::array({1, "a"})), kNames), "cat ?, cat ?");
  EXPECT_EQ(prediction_json(prediction("classes", Json::array({1})), "a.png", kNames).at("outputs"),
            Json::array());
  EXPECT_EQ(prediction_json(Json::array({1}), "a.png", kNames).at("file"), "a.png");
}

}  // namespace
}  // namespace autotuned::daemon
