// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/session_request.hpp"

#include <gtest/gtest.h>

#include "tests/daemon/small_recipe.hpp"

namespace autotuned::daemon {
namespace {

SessionRequest sample() {
  SessionRequest request;
  request.recipe = small_recipe();
  request.history = "/somewhere/history.db";
  request.plugin_folders = {"/one", "/two"};
  request.without = {"amp"};
  request.retune = true;
  request.tune_only = true;
  request.is_ablated = true;
  request.continue_run = "r-20261121-7f3a9c";
  request.faults = {{"crashes", "ended the process", true}, {"hangs", "did not answer", false}};
  request.lost_trials = {3, 5};
  request.block_limit = std::chrono::milliseconds(1500);
  return request;
}

TEST(SessionRequest, ComesBackAsItWas) {
  const SessionRequest sent = sample();
  const auto received = SessionRequest::from_json(sent.to_json());
  ASSERT_TRUE(received) << received.error().message();
  EXPECT_EQ(received->to_json(), sent.to_json());
  EXPECT_EQ(received->recipe.name, "small");
  EXPECT_EQ(received->history, sent.history);
  EXPECT_EQ(received->plugin_folders, sent.plugin_folders);
  EXPECT_EQ(received->without, sent.without);
  EXPECT_TRUE(received->retune);
  EXPECT_TRUE(received->tune_only);
  EXPECT_TRUE(received->is_ablated);
  EXPECT_EQ(received->continue_run, sent.continue_run);
  ASSERT_EQ(received->faults.size(), 2);
  EXPECT_EQ(received->faults[0].plugin, "crashes");
  EXPECT_EQ(received->faults[0].outcome, "ended the process");
  EXPECT_TRUE(received->faults[0].is_loading);
  EXPECT_FALSE(received->faults[1].is_loading);
  EXPECT_EQ(received->lost_trials, sent.lost_trials);
  EXPECT_EQ(received->block_limit, sent.block_limit);
}

TEST(SessionRequest, KnowsWhatTheRecipeSaysWhereAnOptionSaysOtherwise) {
  SessionRequest sent = sample();
  EXPECT_FALSE(SessionRequest::from_json(sent.to_json())->recipe_budget);
  sent.recipe_budget = std::chrono::minutes(7);
  EXPECT_EQ(SessionRequest::from_json(sent.to_json())->recipe_budget, std::chrono::minutes(7));
}

TEST(SessionRequest, KnowsThatATrainingIsToGoOn) {
  SessionRequest sent = sample();
  EXPECT_FALSE(SessionRequest::from_json(sent.to_json())->extends);
  sent.extends = true;
  sent.extended_schedule = "stretch";
  const auto received = SessionRequest::from_json(sent.to_json());
  ASSERT_TRUE(received) << received.error().message();
  EXPECT_TRUE(received->extends);
  EXPECT_EQ(received->extended_schedule, "stretch");
}

TEST(SessionRequest, MissingFieldIsNamed) {
  for (const char* field : {"recipe", "history", "retune", "tune_only", "is_ablated",
                            "continue_run", "block_limit_ns"}) {
    Json value = sample().to_json();
    value.erase(field);
    EXPECT_FALSE(SessionRequest::from_json(value)) << field;
  }
}

TEST(SessionRequest, AScriptComesBackAsItWas) {
  SessionRequest sent;
  sent.script = ScriptRequest{.name = "train.py",
                              .command = {"python3", "train.py", "--epochs", "2"},
                              .content = "4f2a",
                              .budget = std::chrono::seconds(90),
                              .allow = {"numerics"}};
  auto received = SessionRequest::from_json(sent.to_json());
  ASSERT_TRUE(received) << received.error().message();
  EXPECT_EQ(received->to_json(), sent.to_json());
  ASSERT_TRUE(received->script);
  EXPECT_EQ(received->script->command, sent.script->command);
  EXPECT_EQ(received->script->budget, sent.script->budget);
  EXPECT_EQ(received->script->allow, sent.script->allow);
  sent.script->budget.reset();
  received = SessionRequest::from_json(sent.to_json());
  ASSERT_TRUE(received);
  EXPECT_FALSE(received->script->budget);
  Json without = sent.to_json();
  without["script"]["command"] = Json::array();
  EXPECT_FALSE(SessionRequest::from_json(without));
}

// What it is asked before device_of() looks at it.
TEST(SessionRequest, DeviceThatIsNoneIsNamed) {
  for (const char* device : {"cuda:", "cuda:x", "cuda:99999999999999999999", "tpu"}) {
    Json value = sample().to_json();
    value["recipe"]["device"] = device;
    const auto request = SessionRequest::from_json(value);
    ASSERT_FALSE(request) << device;
    EXPECT_NE(request.error().message().find("field device"), std::string::npos);
    EXPECT_NE(request.error().message().find("cuda:N"), std::string::npos);
  }
}

}  // namespace
}  // namespace autotuned::daemon
