// SPDX-License-Identifier: Apache-2.0
// The whole product, LibTorch included, on jobs of a few seconds.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>

#include "base/file.hpp"
#include "base/machine/allocator_library.hpp"
#include "tests/integration/told.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

// An epoch has 128 steps: long enough to be hit in the middle.
constexpr int kLongEpochs = 100;
constexpr const char* kSynthetic =
    "data: {type: synthetic, samples: 4096, shape: [1, 8, 8], classes: 4}\n";

class RealTrainer : public testing::Test {
 protected:
  RealTrainer() { scene_.use_real_trainer(); }

  void write_recipe(const std::string& data, int epochs, int seed = 1) const {
    scene_.write_job(
        "model: {type: mlp, hidden: 16, classes: 4}\nseed: " + std::to_string(seed) + "\n" + data +
        "input: [scale: {by: 1/255}]\noptimizer: {type: sgd, lr: 0.1}\n"
        "train: {epochs: " +
        std::to_string(epochs) + ", batch_size: 32}\ntune: {plugins: [set_to_none], budget: 8s}\n");
  }

  // IDX files: `count` images of 8 x 8 in the header, `bytes` of them in the file.
  void write_images(int count, std::size_t bytes, char label) const {
    const auto number = [](int value) {
      return std::string{'\0', '\0', static_cast<char>(value >> 8),
                         static_cast<char>(value & 0xff)};
    };
    scene_.folder().write("images", std::string("\0\0\x08\x03", 4) + number(count) + number(8) +
                                        number(8) + std::string(bytes, '\x10'));
    scene_.folder().write("labels", std::string("\0\0\x08\x01", 4) + number(count) +
                                        std::string(static_cast<std::size_t>(count), label));
  }
  // Each path ends its line, so that no column of a message depends on its length.
  [[nodiscard]] std::string idx() const {
    return "data:\n  type: idx\n  images: '" + (scene_.folder() / "images").string() +
           "'\n  labels: '" + (scene_.folder() / "labels").string() + "'\n";
  }

  Scene scene_;
};

TEST_F(RealTrainer, TunesTrainsAndWritesTheModel) {
  write_recipe(kSynthetic, 2);
  const Json run = result_of(scene_.run());
  EXPECT_EQ(run.at("training").at("steps"), 256);
  EXPECT_GT(run.at("baseline").at("samples_per_second"), 0.0);
  EXPECT_GE(run.at("best").at("speedup"), 1.0);
  EXPECT_GT(std::filesystem::file_size(scene_.folder() / "out/model.pt"), 1000);
  EXPECT_TRUE(scene_.all_ended());
}

TEST_F(RealTrainer, KilledWhileTrainingEndsAllTheSame) {
  write_recipe(kSynthetic, kLongEpochs);
  Running running = scene_.start_run_until("\ntraining ");
  ASSERT_TRUE(scene_.kill_trainer());
  const Outcome outcome = ended(0, running.finish());
  EXPECT_THAT(outcome.err, HasSubstr("signal 9"));
  EXPECT_EQ(outcome.json().at("training").at("steps"), kLongEpochs * 128);
  EXPECT_TRUE(std::filesystem::exists(scene_.folder() / "out/model.pt"));
}

// Each of these commands is one of the same job, and trains something else, or nothing.
TEST_F(RealTrainer, OtherCommandsLeaveAnInterruptedTrainingAlone) {
  write_recipe(kSynthetic, kLongEpochs);
  Running running = scene_.start_run_until("\ntraining ");
  running.signal(SIGINT);
  ASSERT_EQ(running.finish().code, 130);
  const std::string interrupted = scene_.last_run().at("run");
  const std::filesystem::path checkpoint =
      scene_.folder() / ("out/checkpoint-" + interrupted + ".pt");
  ASSERT_TRUE(std::filesystem::exists(checkpoint));
  struct Other {
    int epochs;
    int seed;
    std::vector<std::string> options;
  };
  const std::string elsewhere = (scene_.folder() / "elsewhere").string();
  const std::vector<Other> others = {
      {kLongEpochs, 1, {"--tune-only"}}, {1, 1, {}}, {1, 2, {}}, {1, 2, {"--output", elsewhere}}};
  for (const Other& other : others) {
    SCOPED_TRACE(testing::PrintToString(other.options) + std::to_string(other.seed));
    write_recipe(kSynthetic, other.epochs, other.seed);
    const Outcome outcome = ended(0, scene_.run(other.options));
    EXPECT_NE(outcome.json().at("run"), interrupted);
    EXPECT_THAT(outcome.err, HasSubstr("run " + interrupted + " of the same job is unfinished"));
    EXPECT_TRUE(std::filesystem::exists(checkpoint));
    EXPECT_EQ(scene_.command({"show", interrupted, "--json"}).json().at("state"), "cancelled");
    const Json training = outcome.json().at("training");
    if (other.epochs == 1) {
      EXPECT_EQ(training.at("steps"), 128);
    } else {
      EXPECT_FALSE(training.contains("steps"));
    }
  }
  EXPECT_EQ(scene_.runs().size(), 5);

  write_recipe(kSynthetic, kLongEpochs);
  const Json outcome = result_of(scene_.run());
  EXPECT_EQ(outcome.at("run"), interrupted);
  EXPECT_GT(outcome.at("training").at("resumed_from_step"), 0);
  EXPECT_EQ(outcome.at("training").at("steps"), kLongEpochs * 128);
  EXPECT_FALSE(std::filesystem::exists(checkpoint));
}

// The files have the same names and sizes, so that it is the same job.
TEST_F(RealTrainer, OtherDataDoNotContinueAnInterruptedTraining) {
  constexpr int kImages = 4096;
  write_images(kImages, kImages * 64, 1);
  write_recipe(idx(), kLongEpochs);
  Running running = scene_.start_run_until("\ntraining ", {"--budget", "0s"});
  running.signal(SIGINT);
  ASSERT_EQ(running.finish().code, 130);
  const std::string interrupted = scene_.last_run().at("run");

  write_images(kImages, kImages * 64, 2);
  const Outcome refused = scene_.run({"--budget", "0s"});
  EXPECT_NE(refused.code, 0);
  Told(scene_, "real_trainer").lines("other data", refused.err, "the checkpoint is of other data");
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "out/model.pt"));

  write_images(kImages, kImages * 64, 1);
  const Json outcome = result_of(scene_.run({"--budget", "0s"}));
  EXPECT_EQ(outcome.at("run"), interrupted);
  EXPECT_GT(outcome.at("training").at("resumed_from_step"), 0);
}

// Checkpoints are due all the time, so that one is being written whenever the trainer dies.
TEST_F(RealTrainer, KilledWhileWritingACheckpointBesideTheTrainingEndsAllTheSame) {
  const std::string job =
      "model: {type: mlp, hidden: 4096, classes: 4}\ninput: [scale: {by: 1/255}]\n" +
      std::string(kSynthetic) +
      "optimizer: {type: sgd, lr: 0.1, momentum: 0.9}\n"
      "train: {epochs: 6, batch_size: 32}\ntune: {budget: 0s}\n";
  scene_.write_job(job);
  ASSERT_EQ(scene_.run().code, 0);
  const std::string whole = scene_.folder().read("out/model.pt");
  ASSERT_FALSE(whole.empty());
  std::filesystem::remove(scene_.folder() / "out/model.pt");

  scene_.write_job(job + "start: {checkpoint.async: on}\n", ", checkpoint_every: 1ms");
  Running running = scene_.start_run_until("\ntraining ");
  ASSERT_TRUE(scene_.kill_trainer());
  const Json outcome = result_of(running.finish());
  EXPECT_GT(outcome.at("training").at("resumed_from_step"), 0);
  EXPECT_EQ(outcome.at("training").at("steps"), 6 * 128);
  EXPECT_TRUE(scene_.folder().read("out/model.pt") == whole) << "the same bits";
}

TEST_F(RealTrainer, TrainsTheSameWithAnotherAllocator) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer is the allocator";
#endif
  write_recipe(kSynthetic, 2);
  const auto train_with = [&](const std::string& allocator) {
    return scene_.run({"--budget", "0s", "-s", "memory.allocator=" + allocator});
  };
  ASSERT_EQ(train_with("glibc").code, 0);
  const std::string expected = scene_.folder().read("out/model.pt");
  for (const AllocatorLibrary& library : kAllocatorLibraries) {
    const std::string name(library.name);
    std::filesystem::remove(scene_.folder() / "out/model.pt");
    const Outcome outcome = train_with(name);
    if (!find_allocator_library(name)) {
      EXPECT_EQ(outcome.code, 2);
      EXPECT_THAT(outcome.err, HasSubstr(std::string(library.package)));
      continue;
    }
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.json().at("best").at("configuration").at("memory.allocator"), name);
    EXPECT_TRUE(scene_.folder().read("out/model.pt") == expected) << name;
  }
}

TEST_F(RealTrainer, ProfilesWhatAnalyzeReads) {
  write_recipe(kSynthetic, 1);
  const std::string recipe = scene_.recipe().string();
  const Json profile = result_of(scene_.command({"profile", recipe, "--steps", "4", "--shapes",
                                                 "--memory", "--json", "-s", "loader.workers=1"}));
  EXPECT_EQ(profile.at("steps"), 4);
  EXPECT_THAT(profile.at("damage"), testing::IsEmpty());
  double parts_us = 0;
  for (const Json& part : profile.at("parts_us"))
    parts_us += part.get<double>();
  EXPECT_NEAR(parts_us, profile.at("step_us").get<double>(), 1e-3);
  double layers_gflop = 0;
  for (const Json& row : profile.at("operators")) {
    if (row.at("name") == "aten::addmm") layers_gflop = row.value("gflop", 0.0);
  }
  EXPECT_DOUBLE_EQ(layers_gflop * 1e9, 4 * 2.0 * 32 * (64 * 16 + 16 * 4));  // 4 steps, 2 layers
  const std::string file = profile.at("file");
  EXPECT_THAT(file, HasSubstr((scene_.folder() / "out/small.").string()));
  EXPECT_THAT(file, testing::EndsWith(".pt.trace.json.gz"));
  const Outcome analysis = scene_.command({"analyze", file, "--json"});
  EXPECT_EQ(analysis.json(), profile);
  EXPECT_TRUE(scene_.all_ended());
}

TEST_F(RealTrainer, ProfilesEachOfSeveralRanks) {
  write_recipe(kSynthetic, 1);
  const Json profile = result_of(
      scene_.command({"profile", scene_.recipe().string(), "--ranks", "2", "--steps", "4", "--json",
                      "--output", (scene_.folder() / "mine.pt.trace.json.gz").string()}));
  ASSERT_EQ(profile.at("ranks").size(), 2U) << profile;
  EXPECT_EQ(profile.at("ranks")[1].at("rank"), 1);
  EXPECT_EQ(profile.at("ranks")[1].at("steps"), 4);
  EXPECT_EQ(profile.at("ranks")[1].at("file"),
            (scene_.folder() / "mine.rank1.pt.trace.json.gz").string());
  const Json& tables = profile.at("views").at("distributed");
  EXPECT_EQ(tables.at(0).at("table"), "ranks");
  EXPECT_EQ(tables.at(0).at("rows").size(), 2U);
  EXPECT_EQ(tables.at(1).at("rows").at(0).at("name"), "gloo:all_reduce");
  // One rank of several may still be looked at on its own.
  const Outcome one = scene_.command(
      {"analyze", (scene_.folder() / "mine.rank1.pt.trace.json.gz").string(), "--json"});
  EXPECT_EQ(one.json().at("rank"), 1);
  EXPECT_TRUE(scene_.all_ended());
}

// The recipe of the repository without its blocks and with small pictures: what gather costs in its backward is
// charged to the module that called it.
TEST_F(RealTrainer, ProfileNamesPatchDropoutAsTheCauseOfASlowGather) {
  std::string recipe =
      read_file(tests::source_folder() / "recipes/vit_patch_dropout.yaml", 1 << 20).value();
  const std::string out = (scene_.folder() / "out").string();
  for (const auto& [given, small] :
       std::map<std::string, std::string>{{"device: auto", "device: cpu"},
                                          {"patch: 16", "patch: 4\n  depth: 0"},
                                          {"shape: [3, 224, 224]", "shape: [3, 64, 64]"},
                                          {"dir: out/vit-patch-dropout", "dir: '" + out + "'"}}) {
    const std::size_t place = recipe.find(given);
    ASSERT_NE(place, std::string::npos) << given;
    recipe.replace(place, given.size(), small);
  }
  scene_.folder().write("recipe.yaml", recipe);
  const Json profile = result_of(scene_.command(
      {"profile", scene_.recipe().string(), "--steps", "3", "--json", "--view", "modules"}));
  Json finding;
  for (const Json& one : profile.at("findings")) {
    if (one.at("id") == "gather_backward") finding = one;
  }
  ASSERT_TRUE(finding.is_object()) << profile.at("findings");
  EXPECT_EQ(finding.at("plugin"), "gather_to_indexing");
  EXPECT_THAT(finding.at("evidence"), HasSubstr("100 % of that in model.patch_drop"));
  double backward_us = 0;
  for (const Json& module : profile.at("views").at("modules").at(0).at("rows")) {
    if (module.at("module") == "  patch_drop") backward_us = module.at("backward_host_us");
  }
  EXPECT_GT(backward_us, 0);
}

TEST_F(RealTrainer, ProfileNamesBadInput) {
  write_recipe(kSynthetic, 1);
  const std::string recipe = scene_.recipe().string();
  Told told(scene_, "real_trainer");
  for (const std::vector<std::string>& options : {std::vector<std::string>{"-s", "loader.worker=1"},
                                                  {"--output", "a.json"},
                                                  {"--limit", "soon"},
                                                  {"--steps", "0"}}) {
    told.ends(2, options[0], scene_.command({"profile", recipe, options[0], options[1]}));
  }
}

TEST_F(RealTrainer, ProfileShowsWhatACheckpointCosts) {
  write_recipe(kSynthetic, 1);
  const std::filesystem::path file = scene_.folder() / "traces/mine.pt.trace.json.gz";
  const auto annotations = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"profile", scene_.recipe().string(), "--steps", "1", "--json",
                                     "--view", "input", "--output", file.string()});
    const Outcome outcome = ended(0, scene_.command(options));
    return outcome.out;
  };
  EXPECT_THAT(annotations({"--checkpoint"}), HasSubstr("checkpoint_write"));
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".checkpoint"));
  EXPECT_THAT(annotations({}), testing::Not(HasSubstr("checkpoint_write")));
}

TEST_F(RealTrainer, ProfileIntoAFileOfThatName) {
  write_recipe(kSynthetic, 1);
  const std::string file = (scene_.folder() / "deep/mine.pt.trace.json.gz").string();
  const Outcome outcome = ended(
      0, scene_.command({"profile", scene_.recipe().string(), "--steps", "1", "--output", file}));
  for (const std::string& words : {file, std::string("DataLoader")})
    EXPECT_THAT(outcome.out, HasSubstr(words));
}

TEST_F(RealTrainer, DataThatCannotBeUsedAreNamed) {
  Told told(scene_, "real_trainer");
  write_recipe(idx(), 1);
  told.ends(2, "no files", scene_.command({"run", scene_.recipe().string()}));
  write_images(64, 10 * 64 + 5, 1);
  told.ends(1, "few bytes", scene_.run(), (scene_.folder() / "images").string());
  write_images(64, 64 * 64, 9);
  told.ends(1, "a label out of range", scene_.run(), "the data has ");
  EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "out/model.pt"));
}

}  // namespace
}  // namespace autotuned
