// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

// Steps on a GPU that are 10 % faster where nothing is loaded, of which they wait 2 %.
Json held_up() {
  Json json = situation("resnet18_gpu");
  json["environment"]["cpus_allowed"] = 8;
  json["incumbent"]["loader.workers"] = 4;
  json["metrics"]["step.data_wait_ratio"] = 0.02;
  json["metrics"]["loader.cost_ratio"] = 0.1;
  json["metrics"]["ceiling.device_batch_ratio"] = 0.85;
  return json;
}

TEST(LoaderAffinity, LeavesTheLaunchingThreadItsCpu) {
  Answers answers("loader_affinity");
  Json json = held_up();
  const Json change = {{"loader.affinity", "apart"}};
  EXPECT_NEAR(first_share(answers.proposes("4 workers on 8 CPUs", json, change)), 0.08, 1e-9);
  tell(json, change, "rejected", 1.0);
  answers.declines("it was tried", json);
  answers.declines("it is set", json, {{"incumbent", change}});
}

TEST(LoaderAffinity, SaysWhyNot) {
  Answers answers("loader_affinity");
  const Json json = held_up();
  answers.declines("no measured ceiling", json,
                   {{"metrics", {{"ceiling.device_batch_ratio", nullptr}}}});
  answers.declines("2 CPUs", json, {{"environment", {{"cpus_allowed", 2}}}});
  answers.declines("a CPU", json, {{"job", {{"device", "cpu"}}}});
  answers.declines("8 workers on 8 CPUs", json, {{"incumbent", {{"loader.workers", 8}}}});
  answers.declines("no workers", json, {{"incumbent", {{"loader.workers", 0}}}});
  answers.declines("loading that hardly costs", json,
                   {{"metrics", {{"loader.cost_ratio", 0.025}}}});
}

}  // namespace
}  // namespace autotuned::plugins
