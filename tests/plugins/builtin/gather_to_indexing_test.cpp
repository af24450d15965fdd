// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(GatherToIndexing, ShowsTheModuleWhoseBackwardBecomesFaster) {
  Json json = gathering(0.4);
  EXPECT_THAT(first_reason(ask(kPlugin, json)), Not(HasSubstr("of it in")));
  json["places"]["operators.gather_share_ratio"] = {{"module", "model.patch_drop"},
                                                    {"share_ratio", 0.98}};
  EXPECT_THAT(first_reason(ask(kPlugin, json)),
              HasSubstr("40 % of the step, 98 % of it in model.patch_drop; if"));
}

TEST(GatherToIndexing, CountsTheKernelsOfAGpu) {
  Json json = gathering(0.4);
  json["metrics"]["operators.gather_share_ratio"] = 0.5;
  json["metrics"]["parts.kernel_ratio"] = 0.5;
  EXPECT_THAT(first_reason(ask(kPlugin, json)), HasSubstr("40 % of the step"));
  json["job"]["device"] = "cuda:0";
  // bin/gather --device cuda, on an H100: the kernel of gather takes a third of the time.
  EXPECT_THAT(none_because(ask(kPlugin, json)), HasSubstr("unless all algorithms"));
  json["recipe"]["deterministic"] = true;
  EXPECT_THAT(first_reason(ask(kPlugin, json)), HasSubstr("25 % of the step"));
  json["metrics"].erase("parts.kernel_ratio");
  EXPECT_THAT(first_reason(ask(kPlugin, json)), HasSubstr("40 % of the step"));
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
