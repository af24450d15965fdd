// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kIndex = "input.jpeg_index";

// A million photos, cropped, in ten epochs: decoded they do not fit.
Json many_photos() {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["loader.cost_ratio"] = 0.8;
  json["metrics"]["input.decode_ratio"] = 0.75;
  json["incumbent"]["input.decode"] = "crop";
  json["job"]["stored_samples"] = 1'000'000;
  json["job"]["jpeg_index_bytes"] = 2LL << 30;
  json["job"]["cache_decoded_bytes"] = 1000LL << 30;
  json["job"]["cache_allowed_bytes"] = 16LL << 30;
  json["recipe"]["train_samples_total"] = 10'000'000;
  return json;
}

TEST(JpegIndex, IsForCropsThatComeAgainAndDoNotFitDecoded) {
  Answers answers("jpeg_index");
  Json json = many_photos();
  const Json answer = answers.proposes("a million photos", json, {{kIndex, true}});
  EXPECT_NEAR(first_share(answer), 0.6, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.3), 1e-9);
  tell(json, {{kIndex, true}}, "rejected", 0.9);
  answers.declines("it was tried", json);
}

TEST(JpegIndex, SaysWhyNot) {
  Answers answers("jpeg_index");
  const Json json = many_photos();
  answers.declines("it is set", json, {{"incumbent", {{kIndex, true}}}});
  answers.declines("no crops", json, {{"job", {{"jpeg_index_bytes", 0}}}});
  answers.declines("whole pictures", json, {{"incumbent", {{"input.decode", "full"}}}});
  answers.declines("smaller pictures", json, {{"incumbent", {{"input.decode_scale", "half"}}}});
  answers.declines("kept pictures", json, {{"incumbent", {{"input.cache", "decoded"}}}});
  answers.declines("few pictures", json, {{"job", {{"cache_decoded_bytes", 8LL << 30}}}});
  answers.declines("a large index", json, {{"job", {{"jpeg_index_bytes", 9LL << 30}}}});
  answers.declines("not twice", json, {{"recipe", {{"train_samples_total", 1'900'000}}}});
  answers.declines("1 % in loading", json, {{"metrics", {{"loader.cost_ratio", 0.01}}}});
  answers.declines("5 % in decoding", json, {{"metrics", {{"input.decode_ratio", 0.05}}}});
  answers.declines("no measurement", json, {{"metrics", {{"input.decode_ratio", nullptr}}}});
}

}  // namespace
}  // namespace autotuned::plugins
