// SPDX-License-Identifier: Apache-2.0
// A finished training that is made longer, with the real trainer.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Extend : public testing::Test {
 protected:
  Extend() { scene_.use_real_trainer(); }

  void write_recipe(int epochs, const std::string& output = "",
                    const std::string& schedule = "") const {
    scene_.write_job(
        "model: {type: mlp, hidden: 16, classes: 4}\n"
        "data: {type: synthetic, samples: 640, shape: [1, 8, 8], classes: 4}\n"
        "input: [scale: {by: 1/255}]\noptimizer: {type: adam, lr: 0.01}\n"
        "evaluate: {split: 10%, save_best: true}\ntrain: {epochs: " +
            std::to_string(epochs) + ", batch_size: 32, ema_decay: 0.9}\ntune: {budget: 0s}\n" +
            schedule,
        output);
  }

  [[nodiscard]] std::string file(const std::string& name) const {
    return scene_.folder().read("out/" + name);
  }

  Scene scene_;
};

TEST_F(Extend, IsATrainingThatWasSoLongFromTheStart) {
  write_recipe(4);
  const std::string elsewhere = (scene_.folder() / "whole").string();
  const Outcome whole = ended(0, scene_.run({"--output", elsewhere}));

  write_recipe(2);
  const Json first = result_of(scene_.run());
  const std::string first_id = first.at("run");
  const std::string first_model = file("model.pt");
  EXPECT_FALSE(file("training_state.pt").empty());

  // Nothing is longer yet.
  const Outcome same = ended(1, scene_.run({"--extend"}));
  Told told(scene_, "extend");
  told.lines("as long as before", same.err, first_id);
  EXPECT_EQ(file("model.pt"), first_model);

  write_recipe(4);
  const Outcome extended = ended(0, scene_.run({"--extend"}));
  told.lines("longer", extended.err, "the training of run " + first_id);
  const Json run = extended.json();
  EXPECT_EQ(run.at("extends"), first_id);
  EXPECT_EQ(run.at("training").at("steps"), whole.json().at("training").at("steps"));
  EXPECT_EQ(run.at("training").at("resumed_from_step"), first.at("training").at("steps"));
  EXPECT_EQ(run.at("training").at("best_evaluation"),
            whole.json().at("training").at("best_evaluation"));
  EXPECT_EQ(run.at("training").at("test_weights"), "model_ema.pt");
  for (const char* name : {"model.pt", "model_ema.pt"})
    EXPECT_TRUE(file(name) == scene_.folder().read("whole/" + std::string(name))) << name;
  const std::string id = run.at("run");
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / ("out/checkpoint-" + id + ".pt")));
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / ("out/model_best-" + id + ".pt")));
  EXPECT_TRUE(std::filesystem::exists(scene_.folder() / "out/model_best.pt"));

  // One lineage, seen from both.
  for (const std::string& part : {first_id, id}) {
    EXPECT_THAT(scene_.command({"show", part}).out,
                ContainsRegex("part 1    " + first_id + "(.|\n)*part 2    " + id));
    EXPECT_EQ(scene_.command({"show", part, "--json"}).json().at("lineage"),
              Json::array({first_id, id}));
  }
  told.lines("history", scene_.command({"history"}).out, id + ": ");
  EXPECT_THAT(scene_.command({"show", id}).out, HasSubstr("training_state.pt"));
  // Its curves are those of both.
  const std::string csv = (scene_.folder() / "curves.csv").string();
  ASSERT_EQ(scene_.command({"export", id, "--csv", csv}).code, 0);
  const std::string curves = scene_.folder().read("curves.csv");
  for (const char* const step : {"18", "36", "54", "72"})  // the ends of the epochs
    EXPECT_THAT(curves, HasSubstr("test/accuracy," + std::string(step) + ","));
}

TEST_F(Extend, GoesOnAfterAnInterruptionAndAgain) {
  write_recipe(1);
  ASSERT_EQ(scene_.run().code, 0);
  const std::string model = file("model.pt");
  const std::string state = file("training_state.pt");
  write_recipe(4'000);
  // Its first evaluation. A line of the training comes after half a second of steps, and an epoch here has a few
  // milliseconds of them beside the saving of the best model.
  Running running = scene_.start_run_until("\nepoch ", {"--extend"});
  running.signal(SIGINT);
  EXPECT_EQ(running.finish().code, 130);
  EXPECT_TRUE(file("model.pt") == model) << "until the new one is complete";
  EXPECT_TRUE(file("training_state.pt") == state);
  const Json interrupted = scene_.last_run();
  EXPECT_EQ(interrupted.at("state"), "cancelled");
  // Another length is another run, from the same state.
  write_recipe(2);
  const Outcome other = ended(0, scene_.run({"--extend"}));
  EXPECT_NE(other.json().at("run"), interrupted.at("run"));
  EXPECT_THAT(other.err, HasSubstr("--extend` and its other options"));
  write_recipe(3);
  const Json third = result_of(scene_.run({"--extend"}));
  EXPECT_EQ(third.at("extends"), other.json().at("run"));
}

// Also without --extend: what a training found best is not replaced before the next one is complete.
TEST_F(Extend, LeavesTheBestModelUntilAnotherTrainingIsComplete) {
  const std::vector<std::string> names = {"model.pt", "model_best.pt", "model_best_ema.pt"};
  write_recipe(1);
  ASSERT_EQ(scene_.run().code, 0);
  const auto written = [this](const std::string& name) {
    return std::filesystem::last_write_time(scene_.folder() / "out" / name);
  };
  std::vector<std::string> before;
  std::vector<std::filesystem::file_time_type> times;
  for (const std::string& name : names) {
    before.push_back(file(name));
    times.push_back(written(name));
    ASSERT_FALSE(before.back().empty()) << name;
  }
  write_recipe(4'000);
  Running running = scene_.start_run_until("\nepoch ");
  const std::string id = scene_.last_run().at("run");
  const auto own = scene_.folder() / ("out/model_best-" + id + ".pt");
  for (int looks = 0; looks < 2000 && !std::filesystem::exists(own); ++looks) {
    running.take_output();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(std::filesystem::exists(own));
  running.end_at_once();
  ASSERT_TRUE(scene_.all_ended());
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_TRUE(file(names[i]) == before[i]) << names[i];
  EXPECT_THAT(scene_.command({"show", id}).out, HasSubstr(own.string()));
  // One that ends replaces them, and leaves nothing of its own.
  write_recipe(3);
  const Json next = result_of(scene_.run());
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_GT(written(names[i]), times[i]) << names[i];
  const std::string next_id = next.at("run");
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / ("out/model_best-" + next_id + ".pt")));
  EXPECT_TRUE(std::filesystem::exists(own)) << "as its checkpoint, for the command that goes on";
}

TEST_F(Extend, AsksForTheCourseOfTheLearningRate) {
  const std::string cosine = "schedule: {type: cosine}\n";
  write_recipe(1, "", cosine);
  ASSERT_EQ(scene_.run().code, 0);
  write_recipe(2, "", cosine);
  Told(scene_, "extend").ends(1, "no course", scene_.run({"--extend"}), "--schedule");
  EXPECT_EQ(scene_.runs().size(), 1U);
  expect_code(0, scene_.run({"--extend", "--schedule", "restart"}));
}

TEST_F(Extend, NeedsTheStateAndSaysSo) {
  write_recipe(1, ", keep_state: false");
  ASSERT_EQ(scene_.run().code, 0);
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "out/training_state.pt"));
  write_recipe(2);
  const Outcome refused = ended(1, scene_.run({"--extend"}));
  Told told(scene_, "extend");
  told.lines("no state", refused.err, "keep_state");
  // Without the option it is another training, as ever; where it could go on, that is said.
  const Outcome anew = ended(0, scene_.run());
  EXPECT_EQ(anew.json().at("training").at("resumed_from_step"), 0);
  EXPECT_THAT(anew.err, Not(HasSubstr("--extend goes on")));
  write_recipe(3);
  told.lines("a longer training", scene_.run().err, "--extend goes on");
}

}  // namespace
}  // namespace autotuned
