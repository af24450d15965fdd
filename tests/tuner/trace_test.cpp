// SPDX-License-Identifier: Apache-2.0
// When a session records steps, and what that is good for.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/tuner/simulation.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kNotProfiled = "not profiled: a priority was changed";

TEST(SessionTrace, RecordsTheStartAndWhatTheSearchEndsWith) {
  Simulation simulation;
  add_three_plugins(simulation);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_THAT(simulation.job.traced, ElementsAre(simulation.input.starting, outcome->best));
  const auto& profiles = simulation.ledger.profiles;
  ASSERT_EQ(profiles.size(), 4U);  // the start, two acceptances, the best again with its trace
  EXPECT_EQ(profiles.front().second.findings.size(), 1U);
  EXPECT_THAT(profiles[2].second.findings, IsEmpty());
  EXPECT_EQ(profiles[3].first, outcome->best);
  EXPECT_EQ(profiles[3].second.findings.at(0).id, "pageable_copies");
  EXPECT_EQ(profiles[3].second.metrics.at("step.data_wait_ratio"), 0.5);
  EXPECT_TRUE(profiles[3].second.metrics.contains("ceiling.device_batch_ratio"));
}

TEST(SessionTrace, PluginsSeeSignalsOfTheStart) {
  Simulation simulation;
  add_three_plugins(simulation);
  ASSERT_TRUE(simulation.run());
  const Json& first = simulation.advisors.situations.front();
  EXPECT_EQ(first.at("metrics").at("copies.pageable_ratio"), 0.25);
  EXPECT_EQ(first.at("metrics").at("step.data_wait_ratio"), 0.5);
  // Signals of an earlier incumbent are left out.
  EXPECT_FALSE(
      simulation.advisors.situations.back().at("metrics").contains("copies.pageable_ratio"));
}

// Plugins that read metrics propose nothing without a profile.
TEST(SessionTrace, AProfileThatIsDisturbedIsTakenOnceMore) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.disturbed_profiles = 1;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(simulation.advisors.situations.front().at("metrics").at("step.data_wait_ratio"), 0.5);
  EXPECT_THAT(simulation.ledger.events, testing::Not(testing::Contains(kNotProfiled)));
}

// The next run asks the plugins again.
TEST(SessionTrace, ASearchWithoutAProfileThatWasDisturbedIsNotComplete) {
  for (const int disturbed : {0, 1, 2}) {
    Simulation simulation;
    simulation.advisors.plugins["reader"] = [](const Json& situation) -> Result<Json> {
      return none(situation.at("metrics").empty() ? "there is no profile" : "nothing is slow");
    };
    simulation.job.disturbed_profiles = disturbed;
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_EQ(outcome->is_complete, disturbed < 2);
    EXPECT_EQ(std::ranges::count(simulation.ledger.events, std::string(kNotProfiled)),
              disturbed < 2 ? 0 : 1);
  }
}

// One that can never be taken would let the next runs search for nothing.
TEST(SessionTrace, ASearchWhoseProfileRanOutOfItsTimeIsNotComplete) {
  for (const ErrorKind kind : {ErrorKind::timeout, ErrorKind::unsupported}) {
    Simulation simulation;
    simulation.advisors.plugins["reader"] = [](const Json& situation) -> Result<Json> {
      return none(situation.at("metrics").empty() ? "there is no profile" : "nothing is slow");
    };
    simulation.job.profile_fault = Error{kind, "no answer within 2 min", {}, {}};
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_EQ(outcome->is_complete, kind != ErrorKind::timeout);
  }
}

void put_on_a_gpu(Simulation& simulation) {
  add_three_plugins(simulation);
  simulation.input.job_facts["device"] = "cuda:0";
}

// The host's times say little of what a GPU waits for.
TEST(SessionTrace, OnAGpuPluginsSeeSignalsOfEveryIncumbent) {
  Simulation simulation;
  put_on_a_gpu(simulation);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_EQ(simulation.job.traced.size(), 3U) << "each incumbent once";
  EXPECT_EQ(simulation.job.traced.front(), simulation.input.starting);
  EXPECT_EQ(simulation.job.traced.back(), outcome->best);
  EXPECT_EQ(simulation.ledger.profiles.size(), 3U);
  for (const Json& situation : simulation.advisors.situations)
    EXPECT_EQ(situation.at("metrics").at("copies.pageable_ratio"), 0.25);
}

TEST(SessionTrace, OnAGpuIncumbentsInBetweenAreRecordedWhereThatIsCheap) {
  Simulation dear;
  put_on_a_gpu(dear);
  dear.job.trace_duration = seconds(30);  // of five minutes
  auto outcome = dear.run();
  ASSERT_TRUE(outcome);
  EXPECT_THAT(dear.job.traced, ElementsAre(dear.input.starting, outcome->best));
  Simulation failing;
  put_on_a_gpu(failing);
  failing.job.trace_fault = Error{ErrorKind::crashed, "no answer", {}, {}};
  outcome = failing.run();
  ASSERT_TRUE(outcome);
  EXPECT_THAT(failing.job.traced, ElementsAre(failing.input.starting, outcome->best));
}

// What the host needs to start convolutions is a small share of the step, whatever they take on the GPU.
TEST(SessionTrace, OnAGpuTheShareOfConvolutionsIsThatOfKernels) {
  Simulation simulation;
  put_on_a_gpu(simulation);
  simulation.job.trace_duration = seconds(40);  // too much for the incumbents in between
  simulation.job.metrics = [](const Configuration&) -> Json {
    return {{"step.data_wait_ratio", 0.5}, {"operators.gemm_conv_ratio", 0.1}};
  };
  ASSERT_TRUE(simulation.run());
  ASSERT_GT(simulation.advisors.situations.size(), 1U);
  for (const Json& situation : simulation.advisors.situations) {
    EXPECT_FALSE(situation.at("metrics").contains("operators.gemm_conv_ratio"));
    EXPECT_EQ(situation.at("metrics").value("operators.convolution_share_ratio", 0.0), 0.75);
  }
  const Json& last = simulation.advisors.situations.back().at("metrics");
  EXPECT_FALSE(last.contains("copies.pageable_ratio")) << "that of the past";
  EXPECT_FALSE(last.contains("loading.read_share_ratio")) << "loading has changed";
}

TEST(SessionTrace, OnAGpuWithoutAnyTraceTheHostsTimesAreAllThatIsKnown) {
  Simulation simulation;
  put_on_a_gpu(simulation);
  simulation.job.trace_fault = Error{ErrorKind::unsupported, "no trace of this job", {}, {}};
  simulation.job.metrics = [](const Configuration&) -> Json {
    return {{"operators.gemm_conv_ratio", 0.4}};
  };
  ASSERT_TRUE(simulation.run());
  for (const Json& situation : simulation.advisors.situations)
    EXPECT_EQ(situation.at("metrics").value("operators.gemm_conv_ratio", 0.0), 0.4);
}

// Unlike its times, the model stays what it is.
TEST(SessionTrace, PluginsKnowWhereOperatorsAre) {
  Simulation simulation;
  add_three_plugins(simulation);
  ASSERT_TRUE(simulation.run());
  ASSERT_GT(simulation.job.traced.size(), 1U);
  for (const Json& situation : simulation.advisors.situations) {
    EXPECT_EQ(situation.at("places").at("operators.gather_share_ratio").at("module"),
              "model.patch_drop");
  }
  Simulation without;
  add_three_plugins(without);
  without.job.trace_fault = Error{ErrorKind::timeout, "no answer", {}, {}};
  ASSERT_TRUE(without.run());
  EXPECT_EQ(without.advisors.situations.front().at("places"), Json::object());
}

TEST(SessionTrace, NothingIsRecordedTwice) {
  Simulation simulation;
  simulation.advisors.plugins["useless"] = once({{"optimizer.set_to_none", true}}, 1.1);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best, simulation.input.starting);
  EXPECT_THAT(simulation.job.traced, ElementsAre(simulation.input.starting));
}

TEST(SessionTrace, ARunThatRemembersItsBestRecordsThat) {
  Simulation simulation;
  add_three_plugins(simulation);
  Configuration known = simulation.input.starting;
  known.set("loader.workers", std::int64_t{2});
  simulation.input.known_best = known;
  ASSERT_TRUE(simulation.run());
  EXPECT_THAT(simulation.job.traced, ElementsAre(known));
  ASSERT_EQ(simulation.ledger.profiles.size(), 1U);
  EXPECT_EQ(simulation.ledger.profiles[0].first, known);
}

TEST(SessionTrace, ARunThatRemembersThatNothingIsFasterRecordsTheStart) {
  Simulation simulation;
  simulation.input.known_best = simulation.input.starting;
  ASSERT_TRUE(simulation.run());
  EXPECT_THAT(simulation.job.traced, ElementsAre(simulation.input.starting));
}

TEST(SessionTrace, OneThatFailsIsANoteAndNothingElse) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.trace_fault = Error{ErrorKind::crashed, "no answer", {}, {}};
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_EQ(simulation.job.traced.size(), 2U);
  const StepProfile& first = simulation.ledger.profiles.front().second;
  EXPECT_THAT(first.findings, IsEmpty());
  EXPECT_THAT(first.notes, ElementsAre(testing::HasSubstr("no answer")));
}

// A trainer that takes longer to load than there is time for does so again.
TEST(SessionTrace, OneThatTakesTooLongIsTheLast) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.trace_fault = Error{ErrorKind::timeout, "no answer to 'load' within 10 s", {}, {}};
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_NE(outcome->best, simulation.input.starting);
  EXPECT_THAT(simulation.job.traced, ElementsAre(simulation.input.starting));
  EXPECT_EQ(simulation.ledger.profiles.size(), 3U) << "the start and two acceptances";
}

TEST(SessionTrace, OneThatIsCancelledEndsTheSession) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.trace_fault = Error{ErrorKind::cancelled, "asked to stop", {}, {}};
  const auto outcome = simulation.run();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind, ErrorKind::cancelled);
}

TEST(SessionTrace, NeedsTimeThatTheBudgetHas) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.input.recipe.tune.budget = seconds(9);
  ASSERT_TRUE(simulation.run());
  EXPECT_THAT(simulation.job.traced, IsEmpty());
  EXPECT_FALSE(simulation.ledger.profiles.empty());
}

// The rest of the search goes on in another process, which knows nothing of the first one's traces.
TEST(SessionTrace, AContinuedSessionRecordsItsIncumbent) {
  Simulation simulation;
  add_three_plugins(simulation);
  ASSERT_TRUE(simulation.run());
  Simulation continued;
  add_three_plugins(continued);
  simulation.ledger.pass_on(continued.input);
  const auto outcome = continued.run();
  ASSERT_TRUE(outcome);
  EXPECT_THAT(continued.job.traced, ElementsAre(outcome->best));
}

}  // namespace
}  // namespace autotuned::tuner
