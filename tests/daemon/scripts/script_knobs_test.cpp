// SPDX-License-Identifier: Apache-2.0
#include "daemon/scripts/script_knobs.hpp"

#include <gmock/gmock.h>

namespace autotuned::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json workers() {
  return {{"name", "loader.workers"},
          {"type", "integer"},
          {"minimum", 0},
          {"maximum", 2},
          {"default", 0},
          {"risk", "semantics"},
          {"switch", "live"},
          {"warmup_steps", 2},
          {"unavailable", "it is iterated by hand"},
          {"one_time_cost", "starting the processes"},
          {"unit", "processes"},
          {"summary", "Processes that prepare batches."}};
}

TEST(ScriptKnobs, AreAsTheAgentTellsThem) {
  const ScriptKnobs found = script_knobs({{"knobs", {workers()}}});
  ASSERT_EQ(found.knobs.size(), 1U);
  const recipes::Knob& knob = found.knobs[0];
  EXPECT_EQ(knob.risk, recipes::RiskClass::semantics) << "not the class of the table";
  EXPECT_EQ(knob.maximum, 2);
  EXPECT_EQ(knob.warmup_steps, 2);
  EXPECT_EQ(knob.unavailable, "it is iterated by hand");
  EXPECT_EQ(knob.one_time_cost, "starting the processes");
  EXPECT_EQ(found.starting.integer("loader.workers"), 0);
  EXPECT_THAT(found.notes, IsEmpty());
  // What the table of knobs prints comes back.
  EXPECT_EQ(script_knobs({{"knobs", {knob.to_json()}}}).knobs.at(0).to_json(), knob.to_json());
}

TEST(ScriptKnobs, TheScriptsOwnValueIsTheStart) {
  Json told = workers();
  told["unavailable"] = "";
  const ScriptKnobs found =
      script_knobs({{"knobs", {told}}, {"configuration", {{"loader.workers", 1}}}});
  EXPECT_EQ(found.starting.integer("loader.workers"), 1);
  const ScriptKnobs outside =
      script_knobs({{"knobs", {told}}, {"configuration", {{"loader.workers", 7}}}});
  EXPECT_EQ(outside.starting.integer("loader.workers"), 0) << "not a value of this knob";
}

TEST(ScriptKnobs, OfAnotherProcessAreLeftOut) {
  Json told = workers();
  told["switch"] = "restart";
  const ScriptKnobs found = script_knobs({{"knobs", {told}}});
  EXPECT_THAT(found.knobs, IsEmpty());
  EXPECT_TRUE(found.starting.empty());
  EXPECT_THAT(found.notes, IsEmpty()) << "nothing is wrong with it";
}

TEST(ScriptKnobs, WhatIsNoKnobIsLeftOutWithANote) {
  for (const char* field : {"type", "risk", "default"}) {
    Json told = workers();
    told[field] = "nonsense";
    const ScriptKnobs found = script_knobs({{"knobs", {told, workers()}}});
    EXPECT_EQ(found.knobs.size(), 1U) << field;
    EXPECT_THAT(found.notes, ElementsAre(HasSubstr("'loader.workers'"))) << field;
  }
  EXPECT_THAT(script_knobs({{"knobs", {1, "x", nullptr}}}).notes, testing::SizeIs(3));
  EXPECT_THAT(script_knobs(Json(nullptr)).knobs, IsEmpty());
}

}  // namespace
}  // namespace autotuned::daemon
