// SPDX-License-Identifier: Apache-2.0
#include "daemon/scripts/script_backend.hpp"

#include <gmock/gmock.h>

#include "base/file.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/scripts/script_scene.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

const KnobValue kBf16 = std::string("bf16");

TEST(ScriptBackend, LearnsWhatTheScriptIs) {
  ScriptScene scene(Json{{"notes", {"a note"}}});
  ScriptBackend& job = scene.loaded();
  EXPECT_EQ(get_string(job.hello(), "python").value_or(""), "3.11.7");
  EXPECT_EQ(job.starting().text("precision.autocast"), "off");
  EXPECT_FALSE(recipes::find_knob(job.knobs(), "cudnn.benchmark")) << "it needs another process";
  EXPECT_THAT(job.notes({}), testing::ElementsAre("a note"));
  EXPECT_TRUE(job.trains_for_real());
  EXPECT_TRUE(job.has_samples());
  EXPECT_EQ(job.samples_per_step(), 8);
  EXPECT_TRUE(job.share_process(job.starting(), scene.with("precision.autocast", kBf16)));
  EXPECT_EQ(job.steps(), 8);
}

TEST(ScriptBackend, SaysHowToPermitOnlyWhatIsNotPermitted) {
  const Json note = {{"text", "workers have copies"}, {"unless_permitted", "loader.workers"}};
  ScriptScene scene(Json{{"notes", Json::array({"a note", note})}});
  const ScriptBackend& job = scene.loaded();
  EXPECT_THAT(job.notes({"numerics"}), testing::ElementsAre("a note", "workers have copies"));
  EXPECT_THAT(job.notes({"numerics", "loader.workers"}), testing::ElementsAre("a note"));
  EXPECT_THAT(job.notes({"semantics"}), testing::ElementsAre("a note"));
}

TEST(ScriptBackend, SwitchesOnlyWhereItMustAndDropsTheColdSteps) {
  ScriptScene scene;
  ScriptBackend& job = scene.loaded();
  const Configuration candidate = scene.with("precision.autocast", kBf16);
  ASSERT_TRUE(job.run_block(job.starting(), {}));
  ASSERT_TRUE(job.run_block(candidate, {}));
  ASSERT_TRUE(job.run_block(candidate, {}));
  scene.let_go();
  const auto prepared = scene.asked("prepare");
  ASSERT_EQ(prepared.size(), 1U) << "the script starts under its own configuration";
  EXPECT_EQ(prepared[0].at("configuration").at("precision.autocast"), "bf16");
  const auto blocks = scene.asked("run");
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0].at("warmup_steps"), 0);
  EXPECT_EQ(blocks[1].at("warmup_steps"), 3) << "what its knob asks for";
  EXPECT_EQ(blocks[2].at("warmup_steps"), 0);
  EXPECT_EQ(blocks[0].at("minimum_steps"), 2);
  EXPECT_EQ(blocks[0].at("minimum_ns"), 250'000'000);
}

TEST(ScriptBackend, CountsStepsWhereItCannotCountSamples) {
  ScriptScene scene(Json{{"samples_per_step", 0}});
  ScriptBackend& job = scene.loaded();
  const auto block = job.run_block(job.starting(), {});
  ASSERT_TRUE(block);
  EXPECT_GT(block->steps, 1);
  EXPECT_EQ(block->samples, block->steps);
  EXPECT_FALSE(job.has_samples());
  EXPECT_EQ(job.samples_per_step(), 1);
}

TEST(ScriptBackend, HasNoRungs) {
  ScriptScene scene;
  ScriptBackend& job = scene.loaded();
  const auto block = job.run_block(job.starting(), {.reuse = "device_batch"});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::unsupported);
  scene.let_go();
  EXPECT_TRUE(scene.asked("run").empty()) << "no step is made for it";
}

TEST(ScriptBackend, ACandidateThatFailsIsTakenBack) {
  ScriptScene scene(Json{{"faults", {{"precision.autocast=bf16", "out_of_memory"}}}});
  ScriptBackend& job = scene.loaded();
  const auto failed = job.run_block(scene.with("precision.autocast", kBf16), {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::out_of_memory);
  EXPECT_FALSE(job.end());
  EXPECT_TRUE(job.run_block(job.starting(), {}));
  scene.let_go();
  EXPECT_EQ(scene.asked("prepare").back().at("configuration").at("precision.autocast"), "off")
      << "the session says what is in force, whatever the agent has put back";
}

TEST(ScriptBackend, ComparesWhatGoesAlongBesideTheReference) {
  ScriptScene scene(Json{{"wrong", {"precision.autocast=bf16"}}});
  ScriptBackend& job = scene.loaded();
  const Configuration candidate = scene.with("precision.autocast", kBf16);
  const auto updates =
      job.compare_updates(job.starting(), candidate, 4, tuner::CheckedSteps::later);
  ASSERT_TRUE(updates) << updates.error().message();
  EXPECT_EQ(updates->steps, 4);
  EXPECT_FALSE(updates->equal);
  ASSERT_EQ(updates->parameters.size(), 1U);
  EXPECT_DOUBLE_EQ(updates->parameters[0].cosine, 0.1);
  EXPECT_EQ(updates->reference_losses.size(), 4U);
  const auto rounded = job.compare_rounded(job.starting());
  ASSERT_TRUE(rounded) << rounded.error().message();
  EXPECT_DOUBLE_EQ(rounded->parameters[0].cosine, 0.99);
  EXPECT_EQ(rounded->steps, 4) << "as many as were compared before";
  scene.let_go();
  const auto checks = scene.asked("check");
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].at("configuration").at("precision.autocast"), "bf16");
  EXPECT_EQ(checks[0].at("rounded"), false) << "it costs more, and is seldom needed";
  EXPECT_TRUE(scene.asked("prepare").empty()) << "the real steps are the reference's";
}

TEST(ScriptBackend, TellsWhatTheModelWasGiven) {
  ScriptScene scene(Json{{"other_batches", {"precision.autocast=bf16"}}});
  ScriptBackend& job = scene.loaded();
  for (const bool is_other : {false, true}) {
    const Configuration candidate =
        is_other ? scene.with("precision.autocast", kBf16) : job.starting();
    const auto updates =
        job.compare_updates(job.starting(), candidate, 4, tuner::CheckedSteps::later);
    ASSERT_TRUE(updates) << updates.error().message();
    ASSERT_EQ(updates->reference_inputs.size(), 1U);
    ASSERT_EQ(updates->candidate_inputs.size(), 1U);
    EXPECT_EQ(updates->reference_inputs[0].images, "1");
    EXPECT_EQ(updates->candidate_inputs[0].images, is_other ? "others" : "1");
    EXPECT_EQ(updates->candidate_inputs[0].labels, "1");
    EXPECT_THAT(updates->candidate_inputs[0].projections, testing::ElementsAre(0.5, -1.5));
  }
}

TEST(ScriptBackend, TellsWhatEachStepRanUnder) {
  ScriptScene scene;
  ScriptBackend& job = scene.loaded();
  const Configuration candidate = scene.with("precision.autocast", kBf16);
  ASSERT_TRUE(job.run_block(job.starting(), {}));
  ASSERT_TRUE(job.compare_updates(job.starting(), candidate, 4, tuner::CheckedSteps::later));
  ASSERT_TRUE(job.run_block(candidate, {}));
  ASSERT_EQ(job.steps_under().size(), 2U);
  EXPECT_EQ(job.steps_under()[0].configuration, job.starting());
  EXPECT_EQ(job.steps_under()[1].configuration, candidate);
  const std::int64_t told =
      job.steps_under()[0].steps + job.steps_under()[1].steps + 8;  // before it was loaded
  EXPECT_EQ(told, job.steps());
  EXPECT_EQ(scene.let_go().steps(), told) << "none is left out, the cold ones included";
}

TEST(ScriptBackend, GoesOnAsItIsTold) {
  ScriptScene scene;
  ScriptBackend& job = scene.loaded();
  const Json kept = {{"run", "r-1"}, {"change", "memory.malloc default → keep"}};
  ASSERT_TRUE(job.finish(scene.with("memory.malloc", std::string("keep")), "kept", kept));
  const std::int64_t tuned = job.steps();
  EXPECT_TRUE(job.see_out());
  EXPECT_EQ(job.steps(), tuned + 50) << "to the end of the script";
  EXPECT_EQ(scene.let_go().configuration().at("memory.malloc"), "keep");
  EXPECT_EQ(scene.asked("finish").at(0).at("kept"), kept) << "for the loggers of the script";
}

TEST(ScriptBackend, AScriptThatIsKilledHasTheStepsOfItsTuning) {
  ScriptScene scene(Json{{"killed", true}});
  ScriptBackend& job = scene.loaded();
  ASSERT_TRUE(job.finish(job.starting(), "nothing"));
  EXPECT_FALSE(job.see_out());
  EXPECT_EQ(job.steps(), 8);
  scene.let_go();
  EXPECT_FALSE(scene.asked("finish").at(0).contains("kept")) << "nothing was kept";
}

TEST(ScriptBackend, AnOptimizerThatIsMadeAnewIsNoFaultOfTheCandidate) {
  ScriptScene scene(Json{{"renewals", 2}});
  ScriptBackend& job = scene.loaded();
  const Configuration candidate = scene.with("precision.autocast", kBf16);
  ASSERT_TRUE(job.run_block(candidate, {}));
  scene.let_go();
  const auto prepared = scene.asked("prepare");
  ASSERT_EQ(prepared.size(), 3U) << "what is in force was put back by the agent each time";
  EXPECT_EQ(prepared[2].at("configuration").at("precision.autocast"), "bf16");
}

TEST(ScriptBackend, AnOptimizerThatIsMadeAnewAllTheTimeEndsTheTuning) {
  ScriptScene scene(Json{{"renewals", 100}});
  ScriptBackend& job = scene.loaded();
  const auto block = job.run_block(job.starting(), {});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::cancelled);
  EXPECT_THAT(block.error().message(), HasSubstr("keeps recreating its optimizer"));
}

// A script that ends while a candidate runs is no fault of the candidate.
TEST(ScriptBackend, TheEndOfTheScriptCancels) {
  struct Case {
    const char* behaviour;
    AgentEnd::Kind kind;
    const char* text;
  };
  for (const Case& one :
       {Case{"ends_at", AgentEnd::Kind::script_ended, ""},
        Case{"closes_at", AgentEnd::Kind::closed, ""},
        Case{"detaches_at", AgentEnd::Kind::detached, "a tensor was not expected"}}) {
    ScriptScene scene(Json{{one.behaviour, 2}});
    ScriptBackend& job = scene.loaded();
    const auto block = job.run_block(job.starting(), {});
    ASSERT_FALSE(block) << one.behaviour;
    EXPECT_EQ(block.error().kind, ErrorKind::cancelled) << one.behaviour;
    ASSERT_TRUE(job.end()) << one.behaviour;
    EXPECT_EQ(job.end()->kind, one.kind) << one.behaviour;
    EXPECT_THAT(job.end()->text, HasSubstr(one.text));
    // Whatever is asked from now on.
    EXPECT_EQ(job.finish(job.starting(), "").error().kind, ErrorKind::cancelled);
  }
}

TEST(ScriptBackend, AScriptWithoutAStepSaysWhy) {
  ScriptScene scene(Json{{"no_step", "no backward pass was seen"}});
  ASSERT_TRUE(scene.job().greet());
  const auto loaded = scene.job().load();
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(scene.job().end()->text, "no backward pass was seen");
  EXPECT_FALSE(scene.job().end()->has_steps);
}

TEST(ScriptBackend, AScriptWithoutPyTorchSaysNothing) {
  ScriptScene scene(Json{{"mute", true}});
  const auto greeted = scene.job().greet();
  ASSERT_FALSE(greeted);
  EXPECT_EQ(greeted.error().kind, ErrorKind::cancelled);
}

// Its steps would disturb the blocks of another run, and theirs its own.
TEST(ScriptBackend, MeasuresInTurnWithOtherRuns) {
  const TemporaryFolder folder;
  const auto file = folder / "measurement.lock";
  ScriptScene scene(Json::object(), file, /*limit=*/std::chrono::nanoseconds(1));
  ScriptBackend& job = scene.loaded();
  ASSERT_TRUE(job.run_block(job.starting(), {}));
  EXPECT_THAT(scene.told(), testing::IsEmpty());
  const auto other = lock_file(file, "process 7", /*wait=*/false);
  ASSERT_TRUE(other) << "it is held only while steps are made";
  ASSERT_TRUE(job.run_block(job.starting(), {})) << "beside the other, in the end";
  ASSERT_EQ(scene.told().size(), 2U);
  EXPECT_EQ(scene.told()[0], "held by process 7");
  EXPECT_THAT(scene.told()[1], HasSubstr("goes on beside the others"));
}

// As a recipe that trains.
TEST(ScriptBackend, TakesNoTurnsOnceItOnlyTrains) {
  const TemporaryFolder folder;
  const auto file = folder / "measurement.lock";
  ScriptScene scene(Json::object(), file);
  ScriptBackend& job = scene.loaded();
  ASSERT_TRUE(job.run_block(job.starting(), {}));
  const auto other = lock_file(file, "process 7", /*wait=*/false);
  ASSERT_TRUE(other);
  EXPECT_TRUE(job.finish(job.starting(), "nothing was kept"));
  EXPECT_THAT(scene.told(), testing::IsEmpty());
}

// The agent answers once another has had the lock: if the job kept it, neither would go on.
TEST(ScriptBackend, AnEvaluationDoesNotKeepOthersFromMeasuring) {
  for (const char* stalled : {"prepare", "run", "place"}) {
    const TemporaryFolder folder;
    const auto file = folder / "measurement.lock";
    // It is not held for the count of the steps at all.
    const bool is_counted = std::string(stalled) == "place";
    const std::chrono::nanoseconds most_stall =
        is_counted ? std::chrono::hours(1) : std::chrono::milliseconds(1);
    ScriptScene scene(Json{{"stalls", {{"request", stalled}, {"lock", file.string()}}}}, file,
                      /*limit=*/std::chrono::hours(1), most_stall);
    scene.loaded();
    const Configuration candidate = scene.with("precision.autocast", kBf16);
    EXPECT_TRUE(scene.job().run_block(candidate, {})) << stalled;
    EXPECT_TRUE(scene.job().run_block(candidate, {})) << stalled << ": it takes its turn again";
    EXPECT_TRUE(lock_file(file, "process 8", /*wait=*/false)) << stalled;
  }
}

TEST(ScriptBackend, AShorterWaitForOthersCanBeSet) {
  const TemporaryFolder folder;
  const auto file = folder / "measurement.lock";
  ScriptScene scene(Json::object(), file);
  ScriptBackend& job = scene.loaded();
  const auto other = lock_file(file, "process 7", /*wait=*/false);
  ASSERT_TRUE(other);
  job.limit_turn_wait(std::chrono::nanoseconds(1));
  EXPECT_TRUE(job.run_block(job.starting(), {})) << "not after an hour";
}

TEST(ScriptBackend, TheEndOfTheScriptEndsTheWaitForAnotherRun) {
  const TemporaryFolder folder;
  const auto file = folder / "measurement.lock";
  ScriptScene scene(Json::object(), file);
  ScriptBackend& job = scene.loaded();
  const auto other = lock_file(file, "process 7", /*wait=*/false);
  ASSERT_TRUE(other);
  scene.cancel().request();
  const auto block = job.run_block(job.starting(), {});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::cancelled);
  ASSERT_TRUE(job.end());
  EXPECT_EQ(job.end()->kind, AgentEnd::Kind::script_ended);
  scene.let_go();
  EXPECT_TRUE(scene.asked("run").empty());
}

TEST(ScriptBackend, StepsOfAnotherKindEndTheTuning) {
  ScriptScene once(Json{{"timeouts", 1}});
  EXPECT_TRUE(once.loaded().run_block(once.job().starting(), {})) << "it was an evaluation";
  ScriptScene always(Json{{"timeouts", 100}});
  ScriptBackend& job = always.loaded();
  const auto block = job.run_block(job.starting(), {});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::cancelled);
  EXPECT_FALSE(job.end()) << "the agent is there, and is told to go on";
}

}  // namespace
}  // namespace autotuned::daemon
