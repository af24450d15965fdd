// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/model/trained_model.hpp"

#include <gmock/gmock.h>

#include <string>

#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/small_run.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

// Two runs that write into one folder.
class TrainedModels : public testing::Test {
 protected:
  void SetUp() override {
    auto history = storage::History::open(file_, storage::Access::read_write);
    ASSERT_TRUE(history) << history.error().message();
    storage::RunRow run = put_small_run(*history);
    for (const char* const id : {"r-20261122-000001", "r-20261122-000002"}) {
      run.id = {id};
      run.output_dir = (folder_ / "out").string();
      run.state = storage::RunState::training;
      ASSERT_TRUE(history->put_run(run));
    }
    folder_.write("out/best.yaml", "autotuned: 1\n");
  }

  [[nodiscard]] TrainedModel found(const std::string& name) const {
    auto model = find_trained_model(name, file_);
    EXPECT_TRUE(model) << model.error().message();
    return model.value_or(TrainedModel{});
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "history.db";
};

TEST_F(TrainedModels, OfAnEarlierRunAreNamed) {
  folder_.write("out/summary.json", R"({"run": "r-20261122-000001"})");
  const TrainedModel last = found("last");
  EXPECT_EQ(last.run, "r-20261122-000001");
  EXPECT_EQ(last.named_run, "r-20261122-000002");
  EXPECT_THAT(earlier_run_note(last),
              testing::AllOf(HasSubstr("run r-20261122-000002 has not written a model"),
                             HasSubstr("earlier run r-20261122-000001")));
  EXPECT_EQ(earlier_run_note(found((folder_ / "out").string())), "") << "no run was named";
}

TEST_F(TrainedModels, OfTheNamedRunNeedNoNote) {
  folder_.write("out/summary.json", R"({"run": "r-20261122-000002"})");
  EXPECT_EQ(earlier_run_note(found("last")), "");
}

// Older versions let a run that only tunes replace the summary of the model.
TEST_F(TrainedModels, BesideTheSummaryOfARunThatOnlyTunedAreThoseOfTheHistory) {
  auto history = storage::History::open(file_, storage::Access::read_write).value();
  storage::RunRow trained = history.run("r-20261122-000001").value();
  trained.state = storage::RunState::finished;
  trained.training = {{"steps", 10}, {"class_names", Json::array({"cat", "dog"})}};
  ASSERT_TRUE(history.update_run(trained));
  storage::RunRow tuned = trained;
  tuned.id = {"r-20261122-000003"};
  tuned.is_tune_only = true;
  tuned.training = Json::object();
  ASSERT_TRUE(history.put_run(tuned));
  folder_.write("out/summary.json", R"({"run": "r-20261122-000003", "training": {}})");
  for (const std::string& name : {trained.id.text, (folder_ / "out").string()}) {
    const TrainedModel model = found(name);
    EXPECT_EQ(model.run, trained.id.text) << name;
    EXPECT_THAT(model.names, testing::ElementsAre("cat", "dog")) << name;
    EXPECT_TRUE(model.owner) << name;
    EXPECT_EQ(earlier_run_note(model), "") << name;
  }
  EXPECT_THAT(earlier_run_note(found("last")),
              HasSubstr("that of the earlier run " + trained.id.text));
}

// Who trained a model of texts to its end would be told only then that it cannot be asked.
TEST_F(TrainedModels, OfTokensAreRefusedBeforeTheyAreTrained) {
  auto history = storage::History::open(file_, storage::Access::read_write).value();
  storage::RunRow run = history.run("last").value();
  run.id = {"r-20261122-000003"};
  run.recipe = {{"data", {{"type", "tokens"}}}};
  run.state = storage::RunState::cancelled;
  ASSERT_TRUE(history.put_run(run));
  std::filesystem::remove(folder_ / "out/best.yaml");
  const auto model = find_trained_model(run.id.text, file_);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message(),
            "run r-20261122-000003: the model takes tokens, and predict is for pictures; load the "
            "trained model in PyTorch: docs/recipe.md, Use the trained model");
}

TEST_F(TrainedModels, AreMissedOfAFinishedRunAndOfOneThatWasStopped) {
  std::filesystem::remove(folder_ / "out/best.yaml");
  const auto refusal = [this] { return find_trained_model("last", file_).error().message(); };
  EXPECT_THAT(refusal(),
              testing::AllOf(HasSubstr("run r-20261122-000002: it has no model, since it has not"),
                             HasSubstr("`autotuned run` with its recipe trains one")));
  auto history = storage::History::open(file_, storage::Access::read_write).value();
  storage::RunRow finished = history.run("last").value();
  finished.state = storage::RunState::finished;
  ASSERT_TRUE(history.update_run(finished));
  EXPECT_THAT(refusal(), HasSubstr("it holds no best.yaml, the recipe of a finished run"));
}

// As in every other command, `last` is the newest run, and not the newest with a model.
TEST_F(TrainedModels, OfLastAreThoseOfTheNewestRun) {
  const auto refusal = [this](const std::string& name) {
    const auto model = find_trained_model(name, file_);
    return model ? "found" : model.error().message();
  };
  EXPECT_EQ(refusal("last"), "found");
  std::filesystem::remove(folder_ / "out/best.yaml");
  const std::string meaning = "`last` is the newest run, whether or not it has a model: ";
  EXPECT_THAT(refusal("last"), testing::AllOf(HasSubstr("it has not trained to its end"),
                                              HasSubstr(meaning + "r-20261122-000002")));
  EXPECT_THAT(refusal("r-20261122-000002"), testing::Not(HasSubstr(meaning)));
  auto history = storage::History::open(file_, storage::Access::read_write).value();
  storage::RunRow of_script = history.run("last").value();
  of_script.id = {"r-20261122-000003"};
  of_script.recipe = {{"kind", "script"}};
  ASSERT_TRUE(history.put_run(of_script));
  EXPECT_THAT(refusal("last"), testing::AllOf(HasSubstr("it is the run of a script"),
                                              HasSubstr(meaning + "r-20261122-000003")));
}

}  // namespace
}  // namespace autotuned::daemon
