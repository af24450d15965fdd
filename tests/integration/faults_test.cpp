// SPDX-License-Identifier: Apache-2.0
// Trainers that fail: in a trial, in the starting configuration, while training.
#include <gmock/gmock.h>

#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

struct TrialFault {
  const char* name;
  Json fault;
  const char* kind;
  const char* reason;
  const char* outcome;  // of the trainer; empty: it did not end
};

void PrintTo(const TrialFault& fault, std::ostream* out) {
  *out << fault.fault.dump();
}

class FaultInTrial : public testing::TestWithParam<TrialFault> {};

TEST_P(FaultInTrial, FailsTheTrialAndTheRunGoesOn) {
  Json behaviour = Scene::fast_job();
  Json fault = GetParam().fault;
  fault["request"] = "run";
  fault["when"] = {"optimizer.set_to_none=on"};
  behaviour["faults"] = {fault};
  const Scene scene{behaviour};
  const Outcome outcome = ended(0, scene.run({"--block-limit", "1s"}));
  const auto failed = trials_with(outcome.json(), "failed");
  ASSERT_EQ(failed.size(), 1);
  EXPECT_EQ(failed[0].at("plugin"), "set_to_none");
  EXPECT_EQ(failed[0].at("failure"), GetParam().kind);
  EXPECT_THAT(failed[0].at("reason").get<std::string>(), HasSubstr(GetParam().reason));
  EXPECT_TRUE(failed[0].at("ratio").is_null());
  const std::string id = failed[0].at("id");
  const Json ends = scene.command({"show", id, "--json"}).json().at("trainer_ends");
  // What `run` told at its end, and others ask for later.
  EXPECT_EQ(failed[0].at("trainer_ends"), ends);
  EXPECT_EQ(trials_with(scene.last_run(), "failed").at(0).at("trainer_ends"), ends);
  EXPECT_EQ(trials_with(outcome.json(), "accepted").at(0).at("trainer_ends"), Json::array());
  if (*GetParam().outcome == '\0') {
    EXPECT_EQ(ends, Json::array());
  } else {
    ASSERT_EQ(ends.size(), 1);
    EXPECT_EQ(ends[0].at("outcome"), GetParam().outcome);
    EXPECT_EQ(ends[0].at("request"), "run");
    for (const std::string& shown : {id, std::string("last")})
      EXPECT_THAT(scene.command({"show", shown}).out, HasSubstr(GetParam().outcome));
  }
  EXPECT_NEAR(outcome.json().at("best").at("speedup").get<double>(), 1.2, 0.03);
  EXPECT_EQ(outcome.json().at("training").at("steps"), 10);
  EXPECT_TRUE(scene.all_ended());
}

INSTANTIATE_TEST_SUITE_P(
    Trainers, FaultInTrial,
    testing::Values(
        TrialFault{"exit", {{"do", "exit"}, {"code", 7}}, "crashed", "exit code 7", "exited"},
        TrialFault{"log", {{"do", "exit"}, {"code", 7}}, "crashed", "fake: exit at run", "exited"},
        TrialFault{"abort", {{"do", "abort"}}, "crashed", "signal 6", "crashed"},
        TrialFault{"killed",
                   {{"do", "kill_self"}},
                   "crashed",
                   "not sent by the kernel's out-of-memory killer",
                   "lost"},
        TrialFault{"hang", {{"do", "hang"}}, "timeout", "no answer to 'run' within", "hung"},
        TrialFault{"progress_forever",
                   {{"do", "progress_forever"}},
                   "timeout",
                   "no answer to 'run' within",
                   "hung"},
        TrialFault{
            "half_frame", {{"do", "half_frame"}}, "timeout", "no answer to 'run' within", "hung"},
        TrialFault{"half_frame_and_exit",
                   {{"do", "half_frame_and_exit"}},
                   "crashed",
                   "exit code 0",
                   "exited"},
        TrialFault{"garbage", {{"do", "garbage"}}, "internal", "JSON", "lost"},
        TrialFault{"empty_block", {{"do", "empty_ok"}}, "invalid", "start_ns", ""},
        TrialFault{"other_id", {{"do", "other_id"}}, "internal", "not asked", "lost"},
        TrialFault{
            "cancelled", {{"do", "error"}, {"kind", "cancelled"}}, "internal", "cancelled", "lost"},
        TrialFault{"out_of_memory",
                   {{"do", "error"}, {"kind", "out_of_memory"}},
                   "out_of_memory",
                   "the fake says out_of_memory",
                   "out_of_host_memory"},
        TrialFault{"unsupported",
                   {{"do", "error"}, {"kind", "unsupported"}},
                   "unsupported",
                   "the fake says unsupported",
                   ""},
        TrialFault{"internal",
                   {{"do", "error"}, {"kind", "internal"}},
                   "internal",
                   "the fake says internal",
                   "lost"}),
    [](const auto& instance) { return std::string(instance.param.name); });

// A run tells the last words of a trainer, and so do the commands that read of it later.
TEST(FaultInWords, NothingThatATrainerSaysSteersTheTerminal) {
  const Scene scene{Scene::fast_job({{"do", "exit"},
                                     {"says", "\x1b[2Jgone\r"},
                                     {"request", "run"},
                                     {"when", {"optimizer.set_to_none=on"}}})};
  const Outcome outcome = ended(0, scene.run());
  const auto failed = trials_with(outcome.json(), "failed");
  ASSERT_EQ(failed.size(), 1);
  const std::string id = failed[0].at("id");
  for (const std::string& text :
       {outcome.err, scene.command({"show", id}).out, scene.command({"explain", "last"}).out}) {
    EXPECT_THAT(text, HasSubstr("fake: exit at run?[2Jgone?"));
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
}

// Before the kernel chooses somebody to kill.
TEST(FaultOfMemory, TrainerThatHoldsMoreThanTheLimitIsEnded) {
  const Scene scene{Scene::fast_job({{"do", "eat"},
                                     {"bytes", 600 << 20},
                                     {"request", "run"},
                                     {"when", {"optimizer.set_to_none=on"}}})};
  scene.write_recipe("  plugins: [set_to_none, memory_malloc]\n  memory_limit: 500MiB\n");
  const Json outcome = result_of(scene.run());
  const auto failed = trials_with(outcome, "failed");
  ASSERT_EQ(failed.size(), 1);
  EXPECT_EQ(failed[0].at("failure"), "out_of_memory");
  EXPECT_THAT(failed[0].at("reason").get<std::string>(), HasSubstr("of memory during 'run', and "));
  EXPECT_TRUE(scene.all_ended());
}

TEST(FaultInStart, FailsTheRunWithTheReason) {
  const Scene scene{
      {{"faults", {{{"do", "error"}, {"kind", "out_of_memory"}, {"request", "run"}}}}}};
  const Outcome outcome = ended(1, scene.run());
  EXPECT_EQ(outcome.json().at("state"), "failed");
  Told told(scene, "faults");
  told.lines("the run", outcome.err, "the fake says out_of_memory");
  told.lines("its JSON", outcome.json().at("error"), "the fake says out_of_memory");

  // A new attempt is a new run.
  scene.fake().behave(Scene::fast_job());
  EXPECT_EQ(scene.run().code, 0);
  EXPECT_EQ(scene.runs().size(), 2);
}

TEST(FaultInStart, CrashWhileLoadingIsReported) {
  const Scene scene{{{"faults", {{{"do", "abort"}, {"request", "load"}}}}}};
  const Outcome outcome = ended(1, scene.run());
  for (const std::string& text : {outcome.err, outcome.json().at("error").get<std::string>()})
    EXPECT_THAT(text, HasSubstr("signal 6"));
  EXPECT_EQ(scene.runs().size(), 0);
}

TEST(FaultInStart, AnotherProtocolIsRefused) {
  const Scene scene{{{"protocol", 2}}};
  Told(scene, "faults").ends(4, "protocol 2", scene.run());
}

TEST(FaultInStart, ProgramThatIsNoTrainerIsNamed) {
  Scene scene;
  scene.set("AUTOTUNED_TRAINER=/bin/true");
  const Outcome outcome = ended(1, scene.run());
  EXPECT_THAT(outcome.err, HasSubstr("before it said hello"));
}

TEST(FaultInTraining, IsResumedFromTheCheckpoint) {
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = Json::array();
  for (const int step : {3, 4}) {
    behaviour["faults"].push_back(
        {{"do", "abort"}, {"request", "train_step"}, {"step", step}, {"once", true}});
  }
  const Scene scene{behaviour};
  const Outcome outcome = ended(0, scene.run());
  EXPECT_EQ(outcome.json().at("training").at("steps"), 10);
  EXPECT_EQ(outcome.json().at("training").at("resumed_from_step"), 4);
  // In no trial.
  ASSERT_EQ(outcome.json().at("trainer_ends").size(), 2);
  EXPECT_EQ(outcome.json().at("trainer_ends")[0].at("outcome"), "crashed");
  EXPECT_EQ(outcome.json().at("trainer_ends")[0].at("request"), "train");
  EXPECT_THAT(outcome.err, testing::ContainsRegex("warning: .*signal 6"));
}

TEST(FaultInTraining, ThatStaysFailsAndTheSameCommandGoesOn) {
  const Scene scene{Scene::fast_job({{"do", "abort"}, {"request", "train_step"}, {"step", 5}})};
  const Outcome outcome = ended(1, scene.run());
  EXPECT_THAT(outcome.err, HasSubstr("signal 6"));
  EXPECT_THAT(outcome.err, HasSubstr("; the same command continues run "));
  EXPECT_EQ(outcome.json().at("state"), "training");

  scene.fake().behave(Scene::fast_job());
  scene.fake().forget_requests();
  const Json again = result_of(scene.run());
  EXPECT_EQ(again.at("run"), outcome.json().at("run"));
  EXPECT_EQ(again.at("error"), "");
  EXPECT_EQ(again.at("training").at("resumed_from_step"), 5);
  EXPECT_TRUE(scene.fake().requests("run").empty());
}

// As a loss that is not finite.
TEST(FaultInTraining, ThatWouldComeAgainSendsNobodyToTheSameCommand) {
  const Scene scene{Scene::fast_job(
      {{"do", "error"}, {"kind", "invalid"}, {"request", "train_step"}, {"step", 5}})};
  const Outcome outcome = ended(1, scene.run());
  EXPECT_THAT(outcome.err, HasSubstr("error: fake: the fake says invalid\n"));
  EXPECT_EQ(outcome.json().at("state"), "training");
}

// The kept batches fit in trials, and not in a training, where memory comes to be in pieces.
TEST(FaultInTraining, ThatRunsOutOfMemoryGoesOnWithSmallerBatches) {
  const Json fault = {{"do", "error"},
                      {"kind", "out_of_memory"},
                      {"request", "train_step"},
                      {"step", 5},
                      {"when", {"batch_size=32"}}};
  const Scene scene{{{"factors", {{"batch_size=16", 1.9}, {"batch_size=32", 3.6}}},
                     {"faults", Json::array({fault})}}};
  scene.write_recipe("  plugins: [batch_size]\n  allow: [batch_size]\n");
  const Outcome outcome = ended(0, scene.run());
  const Json run = outcome.json();
  EXPECT_EQ(run.at("best").at("configuration").at("batch_size"), 32);
  EXPECT_EQ(run.at("training").at("steps"), 10);
  EXPECT_EQ(run.at("training").at("resumed_from_step"), 5);
  const Json fallbacks = run.at("training").at("fallbacks");
  ASSERT_EQ(fallbacks.size(), 1);
  EXPECT_EQ(fallbacks[0].at("change"), Json::object({{"batch_size", 16}}));
  EXPECT_EQ(fallbacks[0].at("configuration").at("batch_size"), 16);
  Told told(scene, "faults");
  told.add("its JSON", fallbacks[0].at("error"));
  told.lines("the run", outcome.err, "the training ran out of memory");
  // Who asks later is told, too; and neither the recipe nor the next run has what does not fit.
  for (const char* command : {"show", "explain"})
    told.lines(command, scene.command({command, "last"}).out, "the training ran out of memory");
  told.lines("best.yaml", scene.folder().read("out/best.yaml"), "batch_size:");
  const Json next = result_of(scene.run());
  EXPECT_NE(next.at("run"), run.at("run"));
  EXPECT_EQ(next.at("best").at("configuration").at("batch_size"), 16);
  EXPECT_FALSE(next.at("training").contains("fallbacks"));
}

TEST(FaultInTraining, ThatFitsUnderNoConfigurationBeginsAgainWithTheKeptOne) {
  const Scene scene{Scene::fast_job(
      {{"do", "error"}, {"kind", "out_of_memory"}, {"request", "train_step"}, {"step", 5}})};
  const Outcome outcome = ended(1, scene.run());
  EXPECT_THAT(outcome.err, HasSubstr("the fake says out_of_memory"));
  EXPECT_EQ(outcome.json().at("state"), "training");
  EXPECT_FALSE(outcome.json().at("training").contains("fallbacks"));
  // With the kept configuration, and with the starting one.
  EXPECT_EQ(scene.fake().requests("train").size(), 2);

  scene.fake().behave(Scene::fast_job());
  scene.fake().forget_requests();
  const Json again = result_of(scene.run());
  EXPECT_EQ(again.at("run"), outcome.json().at("run"));
  EXPECT_EQ(again.at("training").at("resumed_from_step"), 5);
  const auto asked = scene.fake().requests("train");
  ASSERT_EQ(asked.size(), 1);
  EXPECT_EQ(asked[0].at("configuration"), again.at("best").at("configuration"));
  EXPECT_EQ(asked[0].at("takes_other_batch_size"), true);
}

TEST(FaultInTraining, ModelThatCannotBeSavedIsAnError) {
  const Scene scene{Scene::fast_job({{"do", "error"}, {"kind", "disk_full"}, {"request", "save"}})};
  Told(scene, "faults").ends(1, "the run", scene.run(), "the fake says disk_full");
  // The work is not lost.
  scene.fake().behave(Scene::fast_job());
  const Json again = result_of(scene.run());
  EXPECT_EQ(again.at("training").at("resumed_from_step"), 10);
  EXPECT_EQ(scene.folder().read("out/model.pt"), "trained for 10 steps\n");
}

}  // namespace
}  // namespace autotuned
