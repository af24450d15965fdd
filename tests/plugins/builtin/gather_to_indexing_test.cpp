// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

const Json kChange = {{"rewrite.gather", "indexing"}};

Json gathering(double share) {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["operators.gather_ratio"] = share;
  return json;
}

TEST(GatherToIndexing, ProposesItByTheShareOfGather) {
  Answers answers("gather_to_indexing");
  Json json = gathering(0.4);
  EXPECT_NEAR(first_gain(answers.proposes("40 % in gather", json, kChange)), 1 / (1 - 0.24), 1e-9);
  json["places"]["operators.gather_share_ratio"] = {{"module", "model.patch_drop"},
                                                    {"share_ratio", 0.98}};
  answers.proposes("a module that it is in", json, kChange);
}

TEST(GatherToIndexing, CountsTheKernelsOfAGpu) {
  Answers answers("gather_to_indexing");
  Json json = gathering(0.4);
  json["metrics"]["operators.gather_share_ratio"] = 0.5;
  json["metrics"]["parts.kernel_ratio"] = 0.5;
  answers.proposes("a CPU", json, kChange);
  json["job"]["device"] = "cuda:0";
  // bin/gather --device cuda, on an H100: the kernel of gather takes a third of the time.
  answers.declines("a GPU", json);
  json["recipe"]["deterministic"] = true;
  answers.proposes("deterministic algorithms", json, kChange);
  json["metrics"].erase("parts.kernel_ratio");
  answers.proposes("no trace", json, kChange);
}

TEST(GatherToIndexing, SaysWhyNot) {
  Answers answers("gather_to_indexing");
  Json json = gathering(0.4);
  tell(json, kChange, "rejected", 1.001);
  answers.declines("it was tried", json);
  answers.declines("0.2 % in gather", gathering(0.002));
  answers.declines("no gather", gathering(0.0));
  answers.declines("no measurement", json, {{"metrics", {{"operators.gather_ratio", nullptr}}}});
  answers.declines("it is set", json, {{"incumbent", kChange}});
  answers.declines("no knob", json, {{"knobs", {{"rewrite.gather", nullptr}}}});
}

}  // namespace
}  // namespace autotuned::plugins
