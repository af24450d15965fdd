// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/sequel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "daemon/report/training_fallback.hpp"
#include "daemon/session/continued_run.hpp"
#include "daemon/session/output_folder.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/small_recipe.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using storage::RunRow;
using storage::RunState;
using testing::IsEmpty;

const std::string kSequelEnvironment = "fedcba9876543210";
const Json kFacts = {{"train_samples", 64}};

class SequelTest : public testing::Test {
 protected:
  SequelTest() {
    request_.recipe = small_recipe();
    request_.recipe.output_dir = folder_ / "out";
    request_.recipe.train.epochs = 10;
    request_.extends = true;
    folder_.write("out/training_state.pt", "state");
    EXPECT_TRUE(history_.put_environment({kSequelEnvironment, Json::object(), "2.11.0", ""}));
    EXPECT_TRUE(history_.put_recipe({hash(), "small", "", Json::object()}));
  }

  [[nodiscard]] std::string hash() const { return request_.recipe.hash(); }

  // A run of the recipe as it is now, with another plan if one is given.
  RunRow put(const std::string& id, RunState state, const std::string& plan = {}) {
    RunRow run;
    run.id = {id};
    run.recipe_hash = hash();
    run.recipe_name = "small";
    run.environment_key = kSequelEnvironment;
    run.plan = plan.empty() ? plan_of(request_.recipe) : plan;
    run.recipe = Json::object();
    run.output_dir = request_.recipe.output_dir.string();
    run.state = state;
    run.best.set("batch_size", std::int64_t{8});
    run.baseline_samples_per_second = 100.0;
    run.best_samples_per_second = 150.0;
    run.speedup = {.ratio = 1.5, .low = 1.4, .high = 1.6, .pairs = 20};
    run.tuning_duration_ns = 7;
    const std::int64_t epochs = request_.recipe.train.epochs.value_or(1);
    run.training = {{"steps", 8 * epochs}, {"samples", 64 * epochs}, {"epochs", epochs}};
    EXPECT_TRUE(history_.put_run(run));
    return run;
  }

  [[nodiscard]] std::string refusal() const {
    const auto found = find_sequel(history_, request_, hash());
    return found ? "found" : found.error().message();
  }

  TemporaryFolder folder_;
  storage::History history_ =
      storage::History::open(folder_ / "history.db", storage::Access::read_write).value();
  SessionRequest request_;
};

TEST_F(SequelTest, GoesOnWithTheNewestFinishedTraining) {
  put("r-1", RunState::finished);
  put("r-2", RunState::finished);
  put("r-3", RunState::failed);
  put("r-4", RunState::cancelled);
  request_.recipe.train.epochs = 20;
  const auto found = find_sequel(history_, request_, hash());
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->run, "r-2");
  EXPECT_EQ(found->state, folder_ / "out/training_state.pt");
  ASSERT_TRUE(found->base);
  EXPECT_EQ(found->to_request(), (Json{{"path", (folder_ / "out/training_state.pt").string()},
                                       {"run", "r-2"},
                                       {"restarts_schedule", false}}));
  tests::expect_golden(
      "daemon/session/golden/sequel_found.txt",
      tests::with_here(sequel_text(*found) + "\n" + extendable_text(*found, request_.recipe) + "\n",
                       folder_.path()));
}

// The training may have begun without what the job's fastest run found.
TEST_F(SequelTest, NamesAFasterConfigurationThatItDoesNotTake) {
  RunRow base = put("r-2", RunState::finished);
  storage::BestRow best{.recipe_hash = hash(),
                        .environment_key = kSequelEnvironment,
                        .run = {"r-1"},
                        .best = base.best,
                        .speedup = {.ratio = 1.8, .low = 1.7, .high = 1.9, .pairs = 20}};
  EXPECT_EQ(faster_known_text(std::nullopt, base), "");
  EXPECT_EQ(faster_known_text(best, base), "") << "it trained with that";
  best.best.set("batch_size", std::int64_t{16});
  EXPECT_EQ(
      faster_known_text(best, base),
      "run r-1 measured a faster configuration of this job, 1.80 x (1.70 to 1.90): batch_size "
      "unset → 16. --extend keeps the configuration that run r-2 trained with, so that the "
      "training goes on as it began; a run without --extend verifies the faster one and "
      "trains from the start");
  best.speedup.ratio = 1.45;
  EXPECT_EQ(faster_known_text(best, base), "") << "r-2 measured 1.5";
  base.speedup.pairs = 0;
  EXPECT_NE(faster_known_text(best, base), "");
}

TEST_F(SequelTest, SaysWhyThereIsNothingToGoOnWith) {
  tests::Cases cases(folder_.path());
  cases.add("no training", refusal());
  put("r-1", RunState::finished);
  cases.add("the recipe is as long as before", refusal());
  request_.recipe.train.epochs = 20;
  request_.recipe.seed = 2;
  cases.add("another seed", refusal());
  request_.recipe.seed = 1;
  request_.recipe.output_dir = folder_ / "elsewhere";
  cases.add("another folder", refusal());
  request_.recipe.output_dir = folder_ / "out";
  EXPECT_EQ(refusal(), "found");
  request_.recipe.train.epochs.reset();
  request_.recipe.train.steps = 80;
  cases.add("as many steps, of the batch size of the recipe, which is that of the run", refusal());
  request_.recipe.train.steps = 81;
  EXPECT_EQ(refusal(), "found");
  std::filesystem::remove(folder_ / "out/training_state.pt");
  cases.add("its state is gone", refusal());
  tests::expect_golden("daemon/session/golden/sequel_refusals.txt", cases.text());
}

// Before a run is made, and before the session waits for its device.
TEST_F(SequelTest, GoesOnOnlyWherePatienceDoesNotEndItAgain) {
  request_.recipe.evaluation = recipes::Evaluation{.data = {}, .split_ratio = 0.25, .patience = 3};
  ASSERT_TRUE(history_.put_recipe({hash(), "small", "", Json::object()}));
  EXPECT_TRUE(check_length_of_sequel(history_, request_, hash())) << "one may end meanwhile";
  RunRow ended = put("r-1", RunState::finished);
  ended.id = {"r-2"};
  ended.recipe = request_.recipe.to_json();
  ended.training["evaluations_since_best"] = 3;
  ASSERT_TRUE(history_.put_run(ended));
  EXPECT_FALSE(check_length_of_sequel(history_, request_, hash())) << "it is as long already";
  request_.recipe.train.epochs = 20;
  const auto refused = check_length_of_sequel(history_, request_, hash());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "evaluate.patience: it ends the training of run r-2 after 10 epochs, and would end a "
            "longer one there, too; raise it, or leave it out");
  const auto found = find_sequel(history_, request_, hash());
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(extendable_text(*found, request_.recipe),
            "run r-2 has trained 10 epochs of this job into the same folder, where "
            "evaluate.patience ends it: raise it or leave it out, then --extend goes on from its "
            "end; this run trains from the start");
  request_.recipe.evaluation->best_by = "loss";
  EXPECT_TRUE(check_length_of_sequel(history_, request_, hash())) << "another figure";
  request_.recipe.evaluation->best_by = recipes::Evaluation{}.best_by;
  request_.recipe.evaluation->patience = 4;
  EXPECT_TRUE(check_length_of_sequel(history_, request_, hash()));
  request_.recipe.evaluation->patience.reset();
  EXPECT_TRUE(check_length_of_sequel(history_, request_, hash()));
}

TEST_F(SequelTest, ContinuesOneThatWasInterrupted) {
  put("r-1", RunState::finished);
  request_.recipe.train.epochs = 20;
  put("r-2", RunState::cancelled, plan_of(request_.recipe, "r-1"));
  auto found = find_sequel(history_, request_, hash());
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->run, "r-1");
  EXPECT_FALSE(found->base);
  EXPECT_EQ(plan_of(request_.recipe, found->run, found->schedule), history_.run("r-2")->plan);
  // To another length it is another one.
  request_.recipe.train.epochs = 30;
  found = find_sequel(history_, request_, hash());
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_TRUE(found->base);
  // A session that died after the end of its run goes on with that one.
  put("r-3", RunState::finished, plan_of(request_.recipe, "r-1"));
  request_.continue_run = "r-3";
  found = find_sequel(history_, request_, hash());
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->run, "r-1");
}

TEST_F(SequelTest, TakesOverWhatTuningFound) {
  const RunRow base = put("r-1", RunState::finished);
  RunRow run;
  run.environment_key = kSequelEnvironment;
  run.starting.set("batch_size", std::int64_t{4});
  EXPECT_THAT(take_over(base, recipes::knobs_of(Machine{}), run), IsEmpty());
  EXPECT_EQ(run.state, RunState::training);
  EXPECT_EQ(run.best.integer("batch_size"), 8);
  EXPECT_EQ(run.speedup.ratio, 1.5);
  EXPECT_EQ(run.tuning_duration_ns, 7);
  RunRow elsewhere;
  elsewhere.environment_key = "another";
  std::string told;
  for (const std::string& note : take_over(base, {}, elsewhere))
    told += note + "\n";
  tests::expect_golden("daemon/session/golden/sequel_elsewhere.txt", told);
  EXPECT_EQ(elsewhere.speedup.pairs, 0);
}

// It has never measured what it trained with in the end.
TEST_F(SequelTest, TakesNoSpeedupOfAnotherConfiguration) {
  RunRow base = put("r-1", RunState::finished);
  Configuration smaller;
  smaller.set("batch_size", std::int64_t{4});
  add_fallback(smaller, {ErrorKind::out_of_memory, "no memory", {}, {}}, 1, base);
  base.ceiling_samples_per_second = 3000.0;
  RunRow run;
  run.environment_key = kSequelEnvironment;
  const auto notes = take_over(base, recipes::knobs_of(Machine{}), run);
  ASSERT_EQ(notes.size(), 1U);
  tests::expect_golden("daemon/session/golden/sequel_fallback.txt", notes[0] + "\n");
  EXPECT_EQ(run.best.integer("batch_size"), 4);
  EXPECT_EQ(run.speedup.pairs, 0);
  EXPECT_EQ(run.best_samples_per_second, 0.0);
  EXPECT_EQ(run.ceiling_samples_per_second, 0.0);
}

TEST_F(SequelTest, CannotBeginWhatTheTrainerRefuses) {
  const Error refused{ErrorKind::invalid, "of another run", {}, {}};
  EXPECT_TRUE(cannot_begin(refused, folder_ / "out/checkpoint-r-2.pt"));
  EXPECT_FALSE(
      cannot_begin({ErrorKind::crashed, "gone", {}, {}}, folder_ / "out/checkpoint-r-2.pt"));
  folder_.write("out/checkpoint-r-2.pt", "state");
  EXPECT_FALSE(cannot_begin(refused, folder_ / "out/checkpoint-r-2.pt")) << "it has begun";
}

// A person must say what becomes of a rate that was to end with the training.
TEST_F(SequelTest, AsksWhatBecomesOfTheLearningRate) {
  const RunRow base = put("r-1", RunState::finished);
  request_.recipe.train.epochs = 20;
  Sequel sequel{.run = "r-1", .state = {}, .schedule = {}, .base = base};
  const auto told = [&](const recipes::Component& schedule, const std::string& choice) {
    request_.recipe.schedule = schedule;
    sequel.schedule = choice;
    const auto checked = check_schedule_of(sequel, request_.recipe, kFacts);
    return checked ? "goes on" : checked.error().message();
  };
  EXPECT_EQ(told({"constant"}, ""), "goes on");
  tests::Cases cases;
  cases.add("--schedule restart of a constant rate", told({"constant"}, "restart"));
  const recipes::Component cosine{"cosine", {{"warmup_ratio", 0.1}, {"min_lr_ratio", 0.0}}};
  cases.add("a cosine", told(cosine, ""));
  EXPECT_EQ(told(cosine, "stretch"), "goes on");
  EXPECT_EQ(told(cosine, "restart"), "goes on");
  EXPECT_EQ(sequel.to_request().at("restarts_schedule"), true);
  // A warm-up that is over in both lengths makes no jump.
  const auto warmed = [](double share) {
    return recipes::Component{"exponential", {{"gamma", 0.9}, {"warmup_ratio", share}}};
  };
  EXPECT_EQ(told(warmed(0.5), ""), "goes on");
  cases.add("a warm-up that is not over in the longer one", told(warmed(0.6), ""));
  tests::expect_golden("daemon/session/golden/sequel_schedule.txt", cases.text());
  // What has begun has been decided.
  sequel.base.reset();
  EXPECT_EQ(told(cosine, ""), "goes on");
}

TEST(SettledCheckpoint, DoesNotReplaceTheStateOfANewerTraining) {
  const TemporaryFolder folder;
  const auto checkpoint = folder.write("checkpoint-r-1.pt", "old");
  const auto state = folder.write("training_state.pt", "new");
  std::filesystem::last_write_time(
      checkpoint, std::filesystem::last_write_time(state) - std::chrono::seconds(1));
  settle_checkpoint(folder.path(), "r-1", true);
  EXPECT_EQ(folder.read("training_state.pt"), "new");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(BestModel, TakesItsNameAtTheEnd) {
  const TemporaryFolder folder;
  const auto both = [&folder] {
    return folder.read("model_best.pt") + ", " + folder.read("model_best_ema.pt");
  };
  folder.write("model_best.pt", "old");
  folder.write("model_best_ema.pt", "old averages");
  folder.write("model_best-r-1.pt", "of another run");
  ASSERT_TRUE(publish_best_model(folder.path(), "r-2"));
  EXPECT_EQ(both(), "old, old averages") << "it has none";
  folder.write("model_best-r-2.pt", "new");
  folder.write("model_best-r-2_ema.pt", "new averages");
  ASSERT_TRUE(publish_best_model(folder.path(), "r-2"));
  EXPECT_EQ(both(), "new, new averages");
  ASSERT_TRUE(publish_best_model(folder.path(), "r-2")) << "again, after a kill";
  EXPECT_EQ(both(), "new, new averages");
  EXPECT_EQ(folder.entries(), 3);
}

// Saved before the recipe said `save_best: false`.
TEST(SettledCheckpoint, TakesABestModelWithItThatNobodyWants) {
  const TemporaryFolder folder;
  folder.write("checkpoint-r-1.pt", "state");
  for (const char* const name :
       {"model_best-r-1.pt", "model_best-r-1_ema.pt", "model_best-r-2.pt", "model_best.pt"})
    folder.write(name, "weights");
  settle_checkpoint(folder.path(), "r-1", false);
  EXPECT_EQ(folder.entries(), 2);
  EXPECT_EQ(folder.read("model_best-r-2.pt"), "weights");
  EXPECT_EQ(folder.read("model_best.pt"), "weights");
}

TEST(SettledCheckpoint, IsTheStateOfTheModelOrGone) {
  const TemporaryFolder folder;
  folder.write("training_state.pt", "of an earlier one");
  settle_checkpoint(folder.path(), "r-2", true);
  EXPECT_EQ(folder.read("training_state.pt"), "of an earlier one") << "there is no checkpoint";
  folder.write("checkpoint-r-2.pt", "state");
  settle_checkpoint(folder.path(), "r-2", true);
  EXPECT_EQ(folder.read("training_state.pt"), "state");
  folder.write("checkpoint-r-3.pt", "state");
  settle_checkpoint(folder.path(), "r-3", false);
  EXPECT_EQ(folder.entries(), 0);
}

}  // namespace
}  // namespace autotuned::daemon
