// SPDX-License-Identifier: Apache-2.0
// What a run says about a model: accuracy as PyTorch's users mean it.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/told.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

class EvaluationOfARun : public testing::Test {
 protected:
  EvaluationOfARun() { scene_.use_real_trainer(); }

  // `job`: data, input, evaluate and train.
  [[nodiscard]] Outcome run(const std::string& job) const {
    scene_.write_job("model: {type: mlp, hidden: 16, classes: 4}\ntune: {budget: 0s}\n" + job);
    return scene_.run();
  }
  void put(const std::vector<std::string>& files) const {
    for (const std::string& file : files) {
      std::filesystem::create_directories((scene_.folder() / file).parent_path());
      std::filesystem::copy_file(tests::source_folder() / "tests/trainer/input/data/420_16x32.jpg",
                                 scene_.folder() / file);
    }
  }

  Scene scene_;
};

// Under this rate no parameter moves: what differs would be the pictures that are tested on.
constexpr const char* kStill =
    "data: {type: synthetic, samples: 64, shape: [3, 20, 24], classes: 4}\n"
    "evaluate: {data: {type: synthetic, samples: 50, shape: [3, 20, 24], classes: 4}}\n"
    "optimizer: {type: sgd, lr: 1e-30}\n"
    "train: {epochs: 1, batch_size: 32}\n";

TEST_F(EvaluationOfARun, SeesNoMasksAndTheMiddleOfPictures) {
  const auto test_of = [&](const std::string& input) {
    const Json outcome = result_of(run(std::string(kStill) + "input: [" + input + ", to_float]\n"));
    const Json training = outcome.at("training");
    return Json{training.at("test_loss"), training.at("test_accuracy")};
  };
  const Json middle = test_of("center_crop: {size: 14}");
  EXPECT_EQ(test_of("random_crop: {size: 14}, random_mask: {ratio: 1.0}, random_flip"), middle);
  EXPECT_EQ(test_of("rand_augment, random_rotation: {degrees: 90}, pad: {by: 2}, "
                    "random_crop: {size: 14}, random_erasing: {probability: 1}"),
            middle);
  const Json resized = test_of("resize_shorter: {size: 16}, center_crop: {size: 14}");
  EXPECT_EQ(test_of("random_resized_crop: {size: 14}, color_jitter: {brightness: 0.9}"), resized);
  EXPECT_NE(resized, middle);
}

constexpr const char* kFolders =
    "data: {type: image_files, files: train/*/*.jpg}\n"
    "evaluate: {data: {type: image_files, files: test/*/*.jpg}}\n"
    "input: [decode, to_float]\n"
    "optimizer: {type: sgd, lr: 0.01}\n"
    "train: {epochs: 1, batch_size: 1}\n";

TEST_F(EvaluationOfARun, NamesClassesThatOnlyOneFolderHas) {
  put({"train/ant/1.jpg", "train/bee/1.jpg", "train/cat/1.jpg", "test/bee/1.jpg",
       "test/cat/1.jpg"});
  const Outcome missing = ended(0, run(kFolders));
  Told told(scene_, "evaluation");
  told.lines("no sample of one", missing.err, "no sample is of these classes");
  const Json classes = missing.json().at("training").at("test_classes");
  ASSERT_EQ(classes.size(), 4U);  // as many as the model has
  EXPECT_EQ(classes[0].at("class"), "ant");
  EXPECT_EQ(classes[0].at("samples"), 0);
  EXPECT_EQ(classes[0].at("recall"), nullptr);
  EXPECT_EQ(classes[1].at("samples"), 1);
  EXPECT_EQ(classes[3].at("class"), 3);
  const Outcome shown = scene_.command({"show", "last"});
  EXPECT_THAT(shown.out, HasSubstr("\nclasses  recall from "));
  put({"test/dog/1.jpg"});
  const Outcome unknown = run(kFolders);
  EXPECT_NE(unknown.code, 0);
  told.lines("another one", unknown.err, "that the training data do not have");
}

TEST_F(EvaluationOfARun, SplitsTheSameAfterAnInterruption) {
  const std::string job =
      "data: {type: synthetic, samples: 4096, shape: [1, 8, 8], classes: 4}\n"
      "evaluate: {split: 10%, every: end}\n"
      "input: [to_float]\n"
      "optimizer: {type: sgd, lr: 0.01}\n"
      "train: {epochs: 60, batch_size: 32}\n";
  const Json whole = result_of(run(job));
  EXPECT_EQ(whole.at("training").at("steps"), 60 * 115);  // of 3,686 samples
  const std::string model = scene_.folder().read("out/model.pt");

  Running running = scene_.start_run_until("\ntraining ");
  running.signal(SIGINT);
  ASSERT_EQ(running.finish().code, 130);
  const Json rest = result_of(scene_.run());
  EXPECT_GT(rest.at("training").at("resumed_from_step"), 0);
  EXPECT_EQ(rest.at("training").at("test_loss"), whole.at("training").at("test_loss"));
  EXPECT_TRUE(scene_.folder().read("out/model.pt") == model) << "the same bits";
}

}  // namespace
}  // namespace autotuned
