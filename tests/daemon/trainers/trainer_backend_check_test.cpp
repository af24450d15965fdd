// SPDX-License-Identifier: Apache-2.0
// What a job compares: two configurations over the same steps, in one trainer or in two.
#include <filesystem>

#include "tests/daemon/trainers/trainer_backend_scene.hpp"

namespace autotuned::daemon {
namespace {

// What an extension left behind in a process must not be in the reference.
TEST_F(TrainerBackendTest, ComparesAnExtensionWithATrainerThatNeverRanIt) {
  ASSERT_TRUE(job().start(start_));
  EXPECT_EQ(scene_.requests("load").at(0).at("plugins"), Json({"/plugins/libmine_trainer.so"}));
  ASSERT_TRUE(job().run_block(with("mine.skip", true), {}));
  EXPECT_EQ(trainers(), 2);
  const auto compared =
      job().compare_updates(start_, with("mine.skip", true), 6, tuner::CheckedSteps::first);
  ASSERT_TRUE(compared) << compared.error().message();
  EXPECT_EQ(trainers(), 2);
  EXPECT_NE(scene_.requests("compare").at(0).at("trainer"),
            scene_.requests("run").at(0).at("trainer"))
      << "what compares must not have the extension's code";
  ASSERT_TRUE(job().compare_updates(start_, with("optimizer.set_to_none", true), 6,
                                    tuner::CheckedSteps::first));
  EXPECT_EQ(trainers(), 2);
}

// What the extension has become in the process that was measured must be in the candidate, and nothing of it in the
// reference.
TEST_F(TrainerBackendTest, ComparesAfterMeasuringInTheProcessThatWasMeasured) {
  ASSERT_TRUE(job().start(start_));
  const Configuration candidate = with("mine.skip", true);
  ASSERT_TRUE(job().run_block(candidate, {}));
  const auto compared = job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::later);
  ASSERT_TRUE(compared) << compared.error().message();
  EXPECT_EQ(compared->steps, 6);
  const Json steps = scene_.requests("check_steps");
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps.at(0).at("trainer"), scene_.requests("run").at(0).at("trainer"));
  EXPECT_NE(steps.at(0).at("trainer"), steps.at(1).at("trainer"));
  EXPECT_EQ(steps.at(0).at("outputs_before"), false);
  EXPECT_EQ(steps.at(1).at("outputs_before"), true);
  EXPECT_EQ(steps.at(1).at("crosses_epoch"), true);
  // The first one ended the warm-up of the process that was measured.
  const Json restores = scene_.requests("restore");
  ASSERT_EQ(restores.size(), 3U);
  EXPECT_FALSE(restores.at(0).contains("place"));
  EXPECT_TRUE(restores.at(1).contains("place"));
  EXPECT_EQ(restores.at(1).at("place"), restores.at(2).at("place"));
  // That one has run no extension: another look needs no third.
  ASSERT_TRUE(job().compare_updates(start_, candidate, 1, tuner::CheckedSteps::first));
  EXPECT_EQ(trainers(), 2);
}

// Both arms begin where the blocks have left the candidate's process.
TEST_F(TrainerBackendTest, ComparesFromTheStateThatTheMeasuredProcessHasReached) {
  ASSERT_TRUE(job().start(start_));
  const Configuration candidate = with("mine.skip", true);
  ASSERT_TRUE(job().run_block(candidate, {}));
  const int measured = scene_.requests("run").at(0).at("trainer");
  const auto compared = job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::reached);
  ASSERT_TRUE(compared) << compared.error().message();
  // Each once more with the initial moments: those that were reached are the extension's work.
  const Json steps = scene_.requests("check_steps");
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps.at(0).at("trainer"), measured);
  EXPECT_EQ(steps.at(1).at("trainer"), measured);
  EXPECT_NE(steps.at(2).at("trainer"), measured);
  EXPECT_EQ(steps.at(2).at("trainer"), steps.at(3).at("trainer"));
  EXPECT_EQ(steps.at(2).at("outputs_before"), true);
  EXPECT_EQ(steps.at(3).at("outputs_before"), false);
  const std::vector<Json> restores = scene_.requests("restore");
  ASSERT_GE(restores.size(), 4U);
  const std::size_t first = restores.size() - 4;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(restores.at(first + i).at("name"), i % 2 == 0 ? "reached" : "renewed");
    // One epoch of 64 samples; the end of a schedule may teach nothing.
    EXPECT_EQ(restores.at(first + i).at("place").at("samples"), 54);
  }
  for (const Json& renewal : scene_.requests("renew")) {
    EXPECT_EQ(renewal.at("name"), "reached");
    EXPECT_EQ(renewal.at("as"), "renewed");
  }
  EXPECT_EQ(scene_.requests("renew").size(), 2U) << "in both";
  ASSERT_EQ(compared->renewed.size(), 1U);
  EXPECT_TRUE(compared->renewed.front().equal);
  const Json kept = scene_.requests("checkpoint");
  EXPECT_EQ(kept.at(0).at("name"), "reached");
  EXPECT_EQ(kept.at(0).at("trainer"), measured);
  EXPECT_EQ(scene_.requests("compare").at(0).at("base"), "reached");
  EXPECT_EQ(scene_.requests("compare").at(1).at("candidate"), "candidate_renewed");
  // The state and the candidate's, in both; and the reference's. So with the initial moments.
  EXPECT_EQ(scene_.requests("drop").size(), 10U);

  // The job's own turns are looked at from there, too, in the process of the reference.
  const auto own = job().compare_rounded(start_);
  ASSERT_TRUE(own) << own.error().message();
  EXPECT_EQ(own->renewed.size(), 1U);
  const Json rounded = scene_.requests("round");
  ASSERT_EQ(rounded.size(), 2U);
  EXPECT_EQ(rounded.at(0).at("name"), "reached");
  EXPECT_EQ(rounded.at(1).at("name"), "renewed");
  EXPECT_EQ(rounded.at(0).at("trainer"), steps.at(2).at("trainer"));
  EXPECT_EQ(scene_.requests("compare").at(2).at("base"), "reached");
  // Another look begins at the initial state again.
  ASSERT_TRUE(job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::later));
  EXPECT_EQ(scene_.requests("compare").at(4).at("base"), "initial");
  EXPECT_EQ(scene_.requests("restore").back().at("name"), "initial");
  EXPECT_FALSE(scene_.requests("restore").back().at("place").contains("samples"));
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "reached.checkpoint"));
}

// Each is as large as the state of a training.
TEST_F(TrainerBackendTest, RemovesWhatACheckOfAProcessThatWasKilledHasLeft) {
  const std::vector<std::string> names = {"reference", "candidate",         "reference_renewed",
                                          "reached",   "candidate_renewed", "carried"};
  for (const std::string& name : names)
    scene_.folder().write(name + ".checkpoint", "a state");
  scene_.folder().write("another.checkpoint", "a file of somebody");
  ASSERT_TRUE(job().start(start_));
  for (const std::string& name : names)
    EXPECT_FALSE(std::filesystem::exists(scene_.folder().path() / (name + ".checkpoint"))) << name;
  EXPECT_TRUE(std::filesystem::exists(scene_.folder() / "another.checkpoint"));
}

// How far two runs of one configuration differ is looked at in the same steps.
TEST_F(TrainerBackendTest, RepeatsAConfigurationWithTheInitialMomentsAfterAnExtension) {
  ASSERT_TRUE(job().start(start_));
  const auto alone = job().compare_updates(start_, start_, 6, tuner::CheckedSteps::reached);
  ASSERT_TRUE(alone);
  EXPECT_TRUE(alone->renewed.empty());
  ASSERT_TRUE(
      job().compare_updates(start_, with("mine.skip", true), 6, tuner::CheckedSteps::reached));
  const auto own = job().compare_updates(start_, start_, 6, tuner::CheckedSteps::reached);
  ASSERT_TRUE(own) << own.error().message();
  EXPECT_EQ(own->renewed.size(), 1U);
}

// Where an extension was kept, the reference has its code, too.
TEST_F(TrainerBackendTest, ComparesWhereNoCodeOfAnExtensionIs) {
  ASSERT_TRUE(job().start(start_));
  const Configuration kept = with("mine.skip", true);
  ASSERT_TRUE(job().run_block(kept, {}));
  const int measured = scene_.requests("run").at(0).at("trainer");
  Configuration candidate = kept;
  candidate.set("optimizer.set_to_none", true);
  for (const auto which : {tuner::CheckedSteps::later, tuner::CheckedSteps::first}) {
    scene_.forget_requests();
    const auto compared = job().compare_updates(kept, candidate, 6, which);
    ASSERT_TRUE(compared) << compared.error().message();
    for (const Json& steps : scene_.requests("check_steps"))
      EXPECT_EQ(steps.at("trainer"), measured);
    const Json comparison = scene_.requests("compare").at(0);
    EXPECT_NE(comparison.at("trainer"), measured);
    EXPECT_EQ(scene_.requests("import").size(), 2U);
    EXPECT_EQ(scene_.requests("import").at(0).at("trainer"), comparison.at("trainer"));
  }
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "candidate.checkpoint"));
}

// A third trainer takes the place of the reference's: the candidate's is the one that was measured.
TEST_F(TrainerBackendTest, KeepsTheMeasuredTrainerWhereAThirdCompares) {
  ASSERT_TRUE(job().start(start_));
  const Configuration kept = with("mine.skip", true);
  Configuration candidate = kept;
  candidate.set("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().run_block(kept, {}));
  ASSERT_TRUE(job().run_block(candidate, {}));
  const int measured = scene_.requests("run").back().at("trainer");
  ASSERT_TRUE(job().compare_updates(kept, candidate, 6, tuner::CheckedSteps::later));
  scene_.forget_requests();
  ASSERT_TRUE(job().run_block(candidate, {}));
  EXPECT_EQ(scene_.requests("run").back().at("trainer"), measured);
}

// What makes another job is not in that process, and what an extension does late shows only in one that has worked.
TEST_F(TrainerBackendTest, CarriesAStateToAnotherProcess) {
  ASSERT_TRUE(job().start(start_));
  const Configuration candidate = with("mine.skip", true);
  ASSERT_TRUE(job().run_block(candidate, {}));
  const int measured = scene_.requests("run").at(0).at("trainer");
  scene_.forget_requests();
  ASSERT_TRUE(job().keep_state(candidate));
  EXPECT_EQ(scene_.requests("export").at(0).at("trainer"), measured);
  Configuration other = candidate;
  other.set("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().take_state(other));
  const std::vector<Json> restores = scene_.requests("restore");
  ASSERT_FALSE(restores.empty());
  EXPECT_EQ(restores.back().at("name"), "reached");
  EXPECT_NE(restores.back().at("trainer"), measured);
  EXPECT_FALSE(scene_.requests("run").empty()) << "it has warmed up";
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "carried.checkpoint"));
  const auto compared = job().compare_updates(start_, other, 6, tuner::CheckedSteps::reached);
  ASSERT_TRUE(compared) << compared.error().message();
  EXPECT_EQ(scene_.requests("check_steps").at(0).at("trainer"), restores.back().at("trainer"));
}

TEST_F(TrainerBackendTest, ComparesFromAReachedStateWithinOneTrainer) {
  scene_.behave({{"late_not_equal", {"optimizer.set_to_none=on"}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration candidate = with("optimizer.set_to_none", true);
  const auto first = job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::first);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->equal);
  const auto reached = job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::reached);
  ASSERT_TRUE(reached) << reached.error().message();
  EXPECT_FALSE(reached->equal);
  EXPECT_TRUE(scene_.requests("import").empty());
  EXPECT_EQ(trainers(), 1);
}

// In the process that has trained, which leaves before the other one starts: the training may have all memory.
TEST_F(TrainerBackendTest, ComparesATrainedModelInTheProcessThatTrained) {
  ASSERT_TRUE(job().start(start_));
  const Configuration candidate = with("mine.skip", true);
  ASSERT_TRUE(job().train(candidate, scene_.folder() / "c", [](const Json&) {}));
  ASSERT_TRUE(job().save(scene_.folder() / "model.pt"));
  const int trained = scene_.requests("train").at(0).at("trainer");
  scene_.forget_requests();
  const auto compared = job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::reached);
  ASSERT_TRUE(compared) << compared.error().message();
  std::vector<std::string> of_trained;
  int first_of_other = 0;
  int stopped = 0;
  for (const Json& request : scene_.requests()) {
    if (request.at("trainer") == trained) {
      of_trained.push_back(request.at("request"));
      if (request.at("request") == "stop") stopped = request.at("line");
    } else if (first_of_other == 0) {
      first_of_other = request.at("line");
    }
  }
  EXPECT_THAT(of_trained,
              testing::ElementsAre("place", "checkpoint", "export", "renew", "restore",
                                   "check_steps", "checkpoint", "restore", "check_steps",
                                   "checkpoint", "export", "export", "stop"))
      << "the training itself has prepared it";
  EXPECT_LT(stopped, first_of_other);
}

// An extension may answer the test data with other figures than the weights have.
TEST_F(TrainerBackendTest, EvaluatesBothAfterATrainingWithAnExtension) {
  scene_.behave({{"test_losses", {{"mine.skip=on", 0.75}}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration candidate = with("mine.skip", true);
  const auto before = job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::reached);
  ASSERT_TRUE(before) << before.error().message();
  EXPECT_FALSE(before->reference_test);
  for (const Json& steps : scene_.requests("check_steps"))
    EXPECT_FALSE(steps.contains("test_samples"));
  ASSERT_TRUE(job().train(candidate, scene_.folder() / "c", [](const Json&) {}));
  scene_.forget_requests();
  const auto after = job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::reached);
  ASSERT_TRUE(after) << after.error().message();
  ASSERT_TRUE(after->reference_test);
  ASSERT_TRUE(after->candidate_test);
  EXPECT_EQ(after->reference_test->samples, 512);
  EXPECT_EQ(after->reference_test->loss, 0.5);
  EXPECT_EQ(after->candidate_test->loss, 0.75);
  EXPECT_EQ(after->candidate_test->accuracy, 0.75);
  const Json steps = scene_.requests("check_steps");
  ASSERT_EQ(steps.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(steps.at(i).contains("test_samples"), i % 2 == 0) << "not with the initial moments";
}

TEST_F(TrainerBackendTest, DropsWhatACheckHasKept) {
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().compare_updates(start_, with("memory.malloc", std::string("keep")), 6,
                                    tuner::CheckedSteps::later));
  // The candidate's in both trainers, the reference's in its own.
  EXPECT_EQ(scene_.requests("drop").size(), 3);
}

TEST_F(TrainerBackendTest, DropsWhatACheckHasKeptThatFailed) {
  scene_.behave({{"faults",
                  {{{"do", "error"},
                    {"kind", "out_of_memory"},
                    {"request", "check_steps"},
                    {"when", {"memory.malloc=keep"}}}}}});
  ASSERT_TRUE(job().start(start_));
  const auto failed = job().compare_updates(start_, with("memory.malloc", std::string("keep")), 6,
                                            tuner::CheckedSteps::first);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::out_of_memory);
  EXPECT_EQ(scene_.requests("drop").size(), 2) << "the reference's, in both";
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "reference.checkpoint"));
}

// Each in a process of its own, so it is known which one failed.
TEST_F(TrainerBackendTest, SaysThatTheReferenceFailed) {
  scene_.behave(
      {{"faults",
        {{{"do", "abort"}, {"request", "check_steps"}, {"when", {"optimizer.set_to_none=off"}}}}}});
  ASSERT_TRUE(job().start(start_));
  Configuration candidate = with("mine.skip", true);
  candidate.set("optimizer.set_to_none", true);
  const auto failed = job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::reached);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::crashed);
  EXPECT_TRUE(failed.error().is_of_reference);
  // The candidate's, from the state that it reached and from the same with the initial moments, and one of the reference.
  EXPECT_EQ(scene_.requests("check_steps").size(), 3U);

  // In one process, it may be what the candidate left behind.
  const auto same = job().compare_updates(start_, with("optimizer.set_to_none", true), 6,
                                          tuner::CheckedSteps::reached);
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().kind, ErrorKind::crashed);
  EXPECT_FALSE(same.error().is_of_reference);
}

TEST_F(TrainerBackendTest, SaysThatTheReferenceCouldNotCompare) {
  scene_.behave({{"faults", {{{"do", "abort"}, {"request", "compare"}}}}});
  ASSERT_TRUE(job().start(start_));
  const auto failed =
      job().compare_updates(start_, with("mine.skip", true), 6, tuner::CheckedSteps::reached);
  ASSERT_FALSE(failed);
  EXPECT_TRUE(failed.error().is_of_reference) << "the extension is not in that process";
}

TEST_F(TrainerBackendTest, DoesNotSayThatTheReferenceFailedWhereTheCandidateDid) {
  scene_.behave(
      {{"faults",
        {{{"do", "abort"}, {"request", "check_steps"}, {"when", {"optimizer.set_to_none=on"}}}}}});
  ASSERT_TRUE(job().start(start_));
  Configuration candidate = with("mine.skip", true);
  candidate.set("optimizer.set_to_none", true);
  const auto failed = job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::reached);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::crashed);
  EXPECT_FALSE(failed.error().is_of_reference);
}

TEST_F(TrainerBackendTest, ComparesWithinOneTrainerAndAcrossTwo) {
  scene_.behave({{"not_equal", {"memory.malloc=keep"}},
                 {"updates", {{"memory.malloc=keep", {{"norm_ratio", 1.5}, {"cosine", 0.5}}}}}});
  ASSERT_TRUE(job().start(start_));
  const auto same = job().compare_updates(start_, with("optimizer.set_to_none", true), 6,
                                          tuner::CheckedSteps::first);
  ASSERT_TRUE(same) << same.error().message();
  EXPECT_TRUE(same->equal);
  EXPECT_EQ(same->steps, 6);
  EXPECT_EQ(same->reference_losses.size(), 6);
  EXPECT_EQ(same->candidate_losses.size(), 6);
  EXPECT_TRUE(scene_.requests("export").empty());

  const auto other = job().compare_updates(start_, with("memory.malloc", std::string("keep")), 6,
                                           tuner::CheckedSteps::first);
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_FALSE(other->equal);
  ASSERT_EQ(other->parameters.size(), 1);
  EXPECT_EQ(other->parameters[0].norm_ratio, 1.5);
  EXPECT_EQ(other->parameters[0].cosine, 0.5);
  EXPECT_EQ(scene_.requests("export").size(), 1);
  EXPECT_EQ(scene_.requests("import").size(), 1);
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "reference.checkpoint"));
}

// A trainer's infinite ratio arrives as null.
TEST_F(TrainerBackendTest, ComparesAParameterThatOnlyTheCandidateMoves) {
  scene_.behave(
      {{"updates",
        {{"optimizer.set_to_none=on",
          {{"reference_norm", 0.0}, {"candidate_norm", 2.5}, {"norm_ratio", nullptr}}}}}});
  ASSERT_TRUE(job().start(start_));
  const auto compared = job().compare_updates(start_, with("optimizer.set_to_none", true), 6,
                                              tuner::CheckedSteps::first);
  ASSERT_TRUE(compared) << compared.error().message();
  ASSERT_EQ(compared->parameters.size(), 1);
  EXPECT_EQ(compared->parameters[0].reference_norm, 0.0);
  EXPECT_TRUE(std::isnan(compared->parameters[0].norm_ratio));
  EXPECT_EQ(compared->parameters[0].candidate_norm, 2.5);
}

}  // namespace
}  // namespace autotuned::daemon
