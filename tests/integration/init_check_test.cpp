// SPDX-License-Identifier: Apache-2.0
// What `init` writes, looked at by the real trainer: its data are there, its model takes them, and
// it trains.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/daemon/guide/data_samples.hpp"
#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::Not;

class Init : public testing::TestWithParam<std::string> {
 protected:
  Init() {
    scene_.use_real_trainer();
    tests::write_data(scene_.folder(), "photos/", GetParam());
    expect_code(
        0, scene_.command({"init", (scene_.folder() / "photos").string(), "--output", recipe()}));
  }

  [[nodiscard]] std::string recipe() const { return (scene_.folder() / "mine.yaml").string(); }

  Scene scene_;
};

class InitAndCheck : public Init {};

TEST_P(InitAndCheck, FindNoMistake) {
  const Outcome checked = scene_.command({"check", recipe()});
  EXPECT_EQ(checked.code, 0) << checked.err << scene_.folder().read("mine.yaml");
  EXPECT_THAT(checked.err, Not(HasSubstr("were not looked at")));
}

class InitAndRun : public Init {};

TEST_P(InitAndRun, TrainsAnEpoch) {
  std::string text = scene_.folder().read("mine.yaml");
  const std::string epochs = "epochs: 5";
  ASSERT_NE(text.find(epochs), std::string::npos) << text;
  text.replace(text.find(epochs), epochs.size(), "epochs: 1");
  scene_.folder().write("mine.yaml", text);
  const std::filesystem::path output = scene_.folder() / "trained";
  const Outcome run =
      scene_.command({"run", recipe(), "--budget", "0s", "--output", output.string(), "--json"});
  ASSERT_EQ(run.code, 0) << run.err << text;
  const Json training = run.json().at("training");
  EXPECT_GT(training.at("steps"), 0) << training;
  EXPECT_TRUE(training.at("final_loss").is_number()) << training;
  // On the samples that the recipe leaves out of the training.
  EXPECT_TRUE(training.at("test_accuracy").is_number()) << training;
  EXPECT_TRUE(std::filesystem::exists(output / "model.pt"));
}

INSTANTIATE_TEST_SUITE_P(Data, InitAndCheck, testing::ValuesIn(tests::kinds_of_data()),
                         [](const auto& tested) { return tested.param; });
// A folder for each class, and text.
INSTANTIATE_TEST_SUITE_P(Data, InitAndRun, testing::Values("parts", "text"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace autotuned
