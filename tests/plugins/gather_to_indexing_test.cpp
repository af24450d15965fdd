// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPlugin = "gather_to_indexing";

Json gathering(double share) {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["operators.gather_ratio"] = share;
  return json;
}

TEST(GatherToIndexing, ProposesItByTheShareOfGather) {
  const Json answer = ask(kPlugin, gathering(0.4));
  EXPECT_EQ(first_change(answer), Json({{"rewrite.gather", "indexing"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("40 % of the step"));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.24), 1e-9);
}

TEST(GatherToIndexing, SaysWhyNot) {
  Json json = gathering(0.4);
  tell(json, {{"rewrite.gather", "indexing"}}, "rejected", 1.001);
  EXPECT_THAT(none_because(ask(kPlugin, json)), HasSubstr("was tried"));
  EXPECT_THAT(none_because(ask(kPlugin, gathering(0.002))), HasSubstr("only 0.2 %"));
  EXPECT_THAT(none_because(ask(kPlugin, gathering(0.0))), HasSubstr("does not use gather"));
  json["metrics"].erase("operators.gather_ratio");
  EXPECT_THAT(none_because(ask(kPlugin, json)), HasSubstr("does not say"));
  json["incumbent"]["rewrite.gather"] = "indexing";
  EXPECT_THAT(none_because(ask(kPlugin, json)), HasSubstr("already"));
  json["knobs"].erase("rewrite.gather");
  EXPECT_THAT(none_because(ask(kPlugin, json)), HasSubstr("no knob rewrite.gather"));
}

}  // namespace
}  // namespace autotuned::plugins
