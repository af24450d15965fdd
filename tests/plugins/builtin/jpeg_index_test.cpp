// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  Json json = many_photos();
  const Json answer = ask("jpeg_index", json);
  EXPECT_EQ(first_change(answer), Json({{kIndex, true}}));
  EXPECT_THAT(first_reason(answer), AllOf(HasSubstr("takes 75 %"), HasSubstr("2.0 GiB")));
  EXPECT_NEAR(first_share(answer), 0.6, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.3), 1e-9);
  tell(json, {{kIndex, true}}, "rejected", 0.9);
  EXPECT_THAT(none_because(ask("jpeg_index", json)), HasSubstr("was tried"));
}

TEST(JpegIndex, SaysWhyNot) {
  const auto because = [](auto&& change) {
    Json json = many_photos();
    change(json);
    return none_because(ask("jpeg_index", json));
  };
  EXPECT_THAT(because([](Json& json) { json["incumbent"][kIndex] = true; }), HasSubstr("already"));
  EXPECT_THAT(because([](Json& json) { json["job"]["jpeg_index_bytes"] = 0; }),
              HasSubstr("no transform crops JPEG files"));
  EXPECT_THAT(because([](Json& json) { json["incumbent"]["input.decode"] = "full"; }),
              HasSubstr("decoded as a whole"));
  EXPECT_THAT(because([](Json& json) { json["incumbent"]["input.decode_scale"] = "half"; }),
              HasSubstr("input.decode_scale"));
  EXPECT_THAT(because([](Json& json) { json["incumbent"]["input.cache"] = "decoded"; }),
              HasSubstr("are kept decoded (input.cache: decoded)"));
  EXPECT_THAT(because([](Json& json) { json["job"]["cache_decoded_bytes"] = 8LL << 30; }),
              HasSubstr("the decoded pictures fit into memory (8.0 GiB of 16.0 GiB)"));
  EXPECT_THAT(because([](Json& json) { json["job"]["jpeg_index_bytes"] = 9LL << 30; }),
              HasSubstr("an index of all files would need 9.0 GiB"));
  EXPECT_THAT(because([](Json& json) { json["recipe"]["train_samples_total"] = 1'900'000; }),
              HasSubstr("less than twice"));
  EXPECT_THAT(because([](Json& json) { json["metrics"]["loader.cost_ratio"] = 0.01; }),
              HasSubstr("costs the step only 1.0 %"));
  EXPECT_THAT(because([](Json& json) { json["metrics"]["input.decode_ratio"] = 0.05; }),
              HasSubstr("decoding takes only 5.0 %"));
  EXPECT_THAT(because([](Json& json) { json["metrics"].erase("input.decode_ratio"); }),
              HasSubstr("does not say"));
}

}  // namespace
}  // namespace autotuned::plugins
