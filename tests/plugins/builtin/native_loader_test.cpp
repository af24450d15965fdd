// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::ElementsAre;

constexpr const char* kThreads = "loader.native_threads";

// A script whose step waits for `wait` of its time, on eight CPUs.
Json waiting_script(double wait, int workers = 0, const std::string& risk = "exact") {
  Json json = situation("fashion_cnn_cpu");
  json["knobs"][kThreads] = {{"type", "integer"}, {"default", 0},     {"minimum", 0},
                             {"maximum", 8},      {"risk", risk},     {"switch", "live"},
                             {"unavailable", ""}, {"unit", "threads"}};
  json["incumbent"][kThreads] = 0;
  json["incumbent"]["loader.workers"] = workers;
  json["permissions"] = {{"exact", true},
                         {"numerics", true},
                         {"semantics", false},
                         {"knobs", Json::array()},
                         {"option", "--allow"}};
  json["metrics"]["step.data_wait_ratio"] = wait;
  json["environment"]["cpus_allowed"] = 8;
  return json;
}

std::vector<int> thread_counts(const Json& answer) {
  std::vector<int> all;
  for (const Json& candidate : answer.at("candidates"))
    all.push_back(candidate.at("change").at(kThreads).get<int>());
  return all;
}

TEST(NativeLoader, IsProposedWhereTheStepWaits) {
  Answers answers("native_loader");
  // 3 of 4 parts of the step: three times what the rest takes.
  const Json answer = answers.proposes("75 % of waiting", waiting_script(0.75), {{kThreads, 3}});
  EXPECT_THAT(thread_counts(answer), ElementsAre(3, 2));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.375), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.75, 1e-9);
  EXPECT_THAT(thread_counts(ask("native_loader", waiting_script(0.1))), ElementsAre(1));
}

TEST(NativeLoader, GoesByTheWorkersThatDoNotKeepUp) {
  EXPECT_THAT(thread_counts(ask("native_loader", waiting_script(0.5, 2))), ElementsAre(4, 3));
  EXPECT_THAT(thread_counts(ask("native_loader", waiting_script(0.9, 4))), ElementsAre(8, 7))
      << "all CPUs";
  Json json = waiting_script(0.9, 4);
  json["job"]["device"] = "cuda:0";
  EXPECT_THAT(thread_counts(ask("native_loader", json)), ElementsAre(7, 6));
}

TEST(NativeLoader, AddsAThreadWhileTheStepWaits) {
  Answers answers("native_loader");
  Json json = waiting_script(0.75);
  tell(json, {{kThreads, 3}}, "accepted", 2.5);
  answers.declines("1 % of waiting", json, {{"metrics", {{"step.data_wait_ratio", 0.01}}}});
  json["metrics"]["step.data_wait_ratio"] = 0.2;
  EXPECT_THAT(thread_counts(answers.proposes("20 % of waiting", json, {{kThreads, 4}})),
              ElementsAre(4));
  tell(json, {{kThreads, 4}}, "rejected", 0.99);
  answers.declines("4 were not faster", json);
  answers.declines("a thread on each CPU", json, {{"incumbent", {{kThreads, 8}}}});
}

TEST(NativeLoader, SaysWhyNot) {
  Answers answers("native_loader");
  Json json = waiting_script(0.75);
  json["knobs"][kThreads]["unavailable"] = "the data set is a Photos, and known is ImageFolder";
  answers.declines("a data set of its own", json);
  json = waiting_script(0.75, 0, "semantics");
  answers.declines("other samples, which are not permitted", json);
  json["permissions"]["knobs"] = Json::array({kThreads});
  EXPECT_THAT(thread_counts(ask("native_loader", json)), ElementsAre(3, 2));
  tell(json, {{kThreads, 3}}, "rejected", 0.9);
  tell(json, {{kThreads, 2}}, "rejected", 0.9);
  answers.declines("3 and 2 were not faster", json);
  answers.declines("a recipe", situation("fashion_cnn_cpu"));
}

// Processes that make nothing are not worth a trial.
TEST(NativeLoader, LeavesNothingToSettingsOfProcesses) {
  Json json = waiting_script(0.5, 2);
  json["incumbent"][kThreads] = 4;
  EXPECT_EQ(none_because(ask("num_workers", json)),
            "threads of C++ make the batches, and worker processes none");
  EXPECT_EQ(none_because(ask("prefetch_depth", json)),
            "threads of C++ make the batches, and share the work of each of them");
}

}  // namespace
}  // namespace autotuned::plugins
