// SPDX-License-Identifier: Apache-2.0
// What `check` knows before the first step, and `run` before it tunes: the real trainer on recipes that cannot be trained.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/descriptor.hpp"

#include "tests/integration/told.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Check : public testing::Test {
 protected:
  Check() { scene_.use_real_trainer(); }

  // Line 4 is the model, 5 the data, 6 the transforms, 7 the training, then `more`.
  void write(const std::string& model, const std::string& data, const std::string& input,
             const std::string& train = "{steps: 2, batch_size: 4}",
             const std::string& more = "") const {
    scene_.folder().write(
        "recipe.yaml",
        "autotuned: 1\nname: odd\noptimizer: {type: sgd, lr: 0.1}\n"
        "model: " +
            model + "\ndata: " + data + "\ninput: " + input + "\ntrain: " + train + "\n" + more +
            (more.find("output:") == more.npos ? "output: {dir: '" + out() + "'}\n" : ""));
  }
  // `check` refuses the recipe.
  void refuses(const std::string& given) {
    const Outcome checked = check();
    told_.ends(2, given, checked);
    EXPECT_THAT(checked.out, IsEmpty());
  }
  Outcome check(const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = {"check", scene_.recipe().string()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return scene_.command(arguments);
  }
  // A folder of classes `a` and `b` with a picture each of the sizes that their names say.
  std::string pictures(const std::vector<std::string>& names) const {
    const auto fixtures = tests::source_folder() / "tests/trainer/input/data";
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto folder = scene_.folder() / (i % 2 == 0 ? "photos/a" : "photos/b");
      std::filesystem::create_directories(folder);
      std::filesystem::copy_file(fixtures / names[i], folder / (std::to_string(i) + ".jpg"));
    }
    return "{type: jpeg_files, files: '" + (scene_.folder() / "photos/*/*.jpg").string() +
           "', labels: folder_names}";
  }
  std::string out() const { return (scene_.folder() / "out").string(); }

  Scene scene_;
  Told told_{scene_, "check"};
};

constexpr const char* kModel = "{type: mlp, hidden: 8, classes: 4}";
constexpr const char* kData = "{type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}";
constexpr const char* kScale = "[scale: {by: 1/255}]";

TEST_F(Check, SaysOkToWhatCanBeTrained) {
  write(kModel, kData, kScale);
  const Outcome checked = ended(0, check());
  EXPECT_EQ(checked.out, scene_.recipe().string() + ": ok\n");
  EXPECT_THAT(checked.err, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "out")) << "nothing is written";
}

TEST_F(Check, ABatchThatNeverFills) {
  write(kModel, kData, kScale, "{epochs: 1, batch_size: 65}");
  refuses("64 samples");
  write(kModel, kData, kScale, "{epochs: 1, batch_size: 65, drop_last: false}");
  EXPECT_EQ(check().code, 0);
}

TEST_F(Check, SeveralMistakesAtOnce) {
  write(kModel, kData, "[scale: {by: 1/255}, resize: {size: 4}]", "{epochs: 1, batch_size: 65}");
  refuses("a resize of floats, and a batch that never fills");
  write(kModel, kData, "[scale: {by: 1/255}, resize: {size: 4}]", "{epochs: 1, batch_size: 65}",
        "device: cuda\n");
  const Outcome checked = ended(2, check());
  for (const char* place :
       {"recipe.yaml:8:1: device: no CUDA", "recipe.yaml:7:20: ", "recipe.yaml:6:29: "})
    EXPECT_THAT(checked.err, HasSubstr(place));
}

TEST_F(Check, WhatDoesNotGoTogether) {
  write(kModel, pictures({"420_37x51.jpg", "420_16x32.jpg"}), "[decode_jpeg, to_float]",
        "{steps: 2, batch_size: 2}");
  refuses("pictures of several sizes");
  write("{type: mlp, hidden: 8, classes: 3}", kData, kScale);
  refuses("fewer classes than labels");
  write("{type: vit, size: tiny, patch: 3, depth: 1, classes: 4}", kData, kScale);
  refuses("an image that the patch does not divide");
  write("{type: resnet18, classes: 4}", kData, kScale);
  refuses("channels that the model does not take");
  write(kModel, kData, "[scale: {by: 1/255}, normalize: {mean: [0.1, 0.2, 0.3], std: [1, 1, 1]}]");
  refuses("channels that the data do not have");
}

TEST_F(Check, APickleGivenAsAModel) {
  std::ofstream(scene_.folder() / "net.pt") << "\x80\x02pickled";
  write("{type: torchscript, file: net.pt}", kData, kScale);
  refuses("a pickle");
}

TEST_F(Check, DamagedPicturesAllByName) {
  const std::string data =
      pictures({"420_16x32.jpg", "420_16x32.jpg", "420_16x32.jpg", "420_16x32.jpg"});
  const auto folder = scene_.folder() / "photos";
  std::ofstream(folder / "a/0.jpg", std::ios::trunc).flush();
  std::ofstream(folder / "b/1.jpg", std::ios::trunc) << "no picture";
  // Its header is right.
  std::filesystem::resize_file(folder / "a/2.jpg",
                               std::filesystem::file_size(folder / "a/2.jpg") * 9 / 10);
  write(kModel, data, "[decode_jpeg, to_float]");
  refuses("three of four files");
}

// To open a pipe would be to wait for its writer, and the end of /dev/zero never comes.
TEST_F(Check, PipesSocketsAndDevicesAtOnce) {
  const std::string data = pictures({"420_16x32.jpg", "420_16x32.jpg"});
  const auto pipe = scene_.folder() / "photos/a/9.jpg";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  write(kModel, data, "[decode_jpeg, to_float]");
  refuses("a pipe");
  scene_.folder().write("table.csv", "photos/a/0.jpg,0\nphotos/a/9.jpg,1\n");
  write(kModel, "{type: image_index, index: table.csv}", "[decode, to_float]");
  refuses("a pipe in a table");

  std::filesystem::remove(pipe);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(pipe.string().size(), sizeof address.sun_path);
  std::ranges::copy(pipe.string(), address.sun_path);
  const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  write(kModel, data, "[decode_jpeg, to_float]");
  refuses("a socket");

  write(kModel, "{type: idx, images: /dev/zero, labels: /dev/zero}", kScale);
  refuses("a device");
  const auto recipe = scene_.folder() / "pipe.yaml";
  ASSERT_EQ(mkfifo(recipe.c_str(), 0600), 0);
  for (const char* const command : {"check", "run"})
    told_.ends(2, command, scene_.command({command, recipe.string()}));
}

// Labels are texts, as `01` and `1` are.
TEST_F(Check, ClassesThatDifferInAZero) {
  (void)pictures({"420_16x32.jpg", "420_16x32.jpg"});
  scene_.folder().write("table.csv", "photos/a/0.jpg,01\nphotos/b/1.jpg,1\n");
  write(kModel, "{type: image_index, index: table.csv}", "[decode, to_float]",
        "{steps: 2, batch_size: 2}");
  told_.ends(0, "01 and 1", check());
}

TEST_F(Check, AnOutputFolderThatCannotBeWritten) {
  std::ofstream(scene_.folder() / "file") << "no folder";
  write(kModel, kData, kScale, "{steps: 2, batch_size: 4}",
        "output: {dir: '" + (scene_.folder() / "file/out").string() + "'}\n");
  refuses("a file");
  told_.ends(2, "run", scene_.command({"run", scene_.recipe().string()}));
}

TEST_F(Check, DataToEvaluateOnThatCannotBeRead) {
  std::ofstream(scene_.folder() / "images") << "no idx";
  std::ofstream(scene_.folder() / "labels") << "no idx";
  write(kModel, kData, kScale, "{steps: 2, batch_size: 4}",
        "evaluate:\n  data: {type: idx, images: images, labels: labels}\n");
  refuses("no idx");
}

TEST_F(Check, IsJsonWhereAskedFor) {
  write(kModel, kData, kScale, "{epochs: 1, batch_size: 65}");
  const Outcome checked = ended(2, check({"--json"}));
  const Json problem = Json::parse(checked.out).at("diagnostics").at(0);
  EXPECT_EQ(problem.at("line"), 7);
  EXPECT_THAT(problem.at("message").get<std::string>(), testing::StartsWith("train.batch_size: "));
}

// Without a trainer the recipe alone was checked, which is said.
TEST_F(Check, SaysWhatItDidNotLookAt) {
  scene_.set("AUTOTUNED_TRAINER=/nowhere/autotuned-trainer");
  write(kModel, kData, kScale);
  told_.ends(0, "no trainer", check());
}

TEST_F(Check, IsWhatARunSaysBeforeItTunes) {
  write(kModel, kData, "[scale: {by: 1/255}, resize: {size: 4}]", "{epochs: 1, batch_size: 65}");
  const Outcome run = scene_.command({"run", scene_.recipe().string()});
  EXPECT_NE(run.code, 0);
  EXPECT_THAT(run.err, Not(HasSubstr("start ")));
  told_.lines("run", run.err, "recipe.yaml:");
}

}  // namespace
}  // namespace autotuned
