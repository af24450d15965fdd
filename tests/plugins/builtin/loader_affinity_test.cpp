// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  Json json = held_up();
  const Json answer = ask("loader_affinity", json);
  EXPECT_EQ(first_change(answer), Json({{"loader.affinity", "apart"}}));
  EXPECT_NEAR(first_share(answer), 0.08, 1e-9);
  EXPECT_THAT(first_reason(answer),
              AllOf(HasSubstr("8.0 %"), HasSubstr("4 workers"), HasSubstr("8 CPUs")));
  tell(json, {{"loader.affinity", "apart"}}, "rejected", 1.0);
  EXPECT_THAT(none_because(ask("loader_affinity", json)), HasSubstr("were tried"));
  json["incumbent"]["loader.affinity"] = "apart";
  EXPECT_THAT(none_because(ask("loader_affinity", json)), HasSubstr("already"));
}

TEST(LoaderAffinity, NeedsAMeasuredCeiling) {
  Json json = held_up();
  json["metrics"].erase("ceiling.device_batch_ratio");
  EXPECT_THAT(none_because(ask("loader_affinity", json)), HasSubstr("was not measured"));
}

TEST(LoaderAffinity, SaysWhereItCanOnlyCost) {
  Json json = held_up();
  json["environment"]["cpus_allowed"] = 2;
  EXPECT_THAT(none_because(ask("loader_affinity", json)),
              AllOf(HasSubstr("with 2 CPUs all workers"), HasSubstr("can only be slower")));
  json = held_up();
  json["job"]["device"] = "cpu";
  EXPECT_THAT(none_because(ask("loader_affinity", json)), HasSubstr("itself computes on all CPUs"));
  json = held_up();
  json["incumbent"]["loader.workers"] = 8;
  EXPECT_THAT(none_because(ask("loader_affinity", json)), HasSubstr("8 workers on 8 CPUs"));
  json["incumbent"]["loader.workers"] = 0;
  EXPECT_THAT(none_because(ask("loader_affinity", json)), HasSubstr("without loader workers"));
  json = held_up();
  json["metrics"]["loader.cost_ratio"] = 0.025;
  EXPECT_THAT(none_because(ask("loader_affinity", json)), HasSubstr("only 0.5 %"));
}

}  // namespace
}  // namespace autotuned::plugins
