// SPDX-License-Identifier: Apache-2.0
// Trainings on several ranks by the real trainer, over its protocol.
#include "tests/trainer/ranks/ranks_scene.hpp"

namespace autotuned::trainer {
namespace {

using daemon::TrainerClient;
using testing::HasSubstr;
using testing::SizeIs;

// The trainer itself compares the parameters of all ranks.
TEST_F(SeveralRanks, TrainToTheSameParameters) {
  std::vector<std::string> digests;
  for (const int ranks : {2, 2, 3}) {
    std::int64_t last_total = 0;
    TrainerClient client = start(recipe(ranks));
    EXPECT_THAT(children_of(client.pid()), SizeIs(ranks - 1));
    const Json done = value_of(train(client, recipe(ranks), false, [&](const Json& progress) {
      last_total = get_integer(progress, "samples_total").value_or(last_total);
    }));
    EXPECT_EQ(get_integer(done, "ranks").value_or(0), ranks);
    // 200 samples among them, in full batches of 20 on each.
    const std::int64_t steps = 2 * (200 / ranks / 20);
    EXPECT_EQ(get_integer(done, "steps").value_or(0), steps);
    EXPECT_EQ(get_integer(done, "samples").value_or(0), steps * 20 * ranks);
    EXPECT_EQ(last_total, steps * 20 * ranks);
    EXPECT_TRUE(member(done, "test_accuracy").is_number());
    digests.push_back(parameters_of(done));
    EXPECT_THAT(digests.back(), SizeIs(64));
  }
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_NE(digests[0], digests[2]);
}

// Batch statistics, parts of a batch, a limit of gradients, random numbers, a last batch that is short, and an end that
// the evaluation decides.
TEST_F(SeveralRanks, AgreeWhateverAStepDoes) {
  recipes::Recipe rules = recipe(2);
  rules.train.drop_last = false;
  rules.train.batch_size = 32;
  rules.step_rules = {.accumulate = 3, .clip_norm = 0.5, .ema_decay = 0.9};
  rules.evaluation->patience = 1;
  EXPECT_THAT(parameters_of(trained(rules)), SizeIs(64));

  recipes::Recipe plain = rules;
  plain.step_rules = {};
  EXPECT_NE(parameters_of(trained(plain)), parameters_of(trained(rules)));

  recipes::Recipe norms = recipe(2);
  norms.train.epochs = 1;
  norms.train.batch_size = 4;
  norms.model = {"resnet18", {{"classes", 4}}};
  norms.data.parameters["samples"] = 24;
  norms.data.parameters["shape"] = {3, 32, 32};
  norms.evaluation->data.parameters["shape"] = {3, 32, 32};
  norms.input = {{"random_flip", {{"probability", 0.5}}}, {"scale", {{"by", "1/255"}}}};
  EXPECT_THAT(parameters_of(trained(norms)), SizeIs(64));
}

TEST_F(SeveralRanks, GoOnToTheSameBitsAfterACancel) {
  recipes::Recipe random = patch_dropout_recipe();
  random.train.ranks = 2;
  random.train.epochs = 8;
  const std::string expected = parameters_of(trained(random));

  TrainerClient first = start(random);
  const Json stopped = value_of(train(first, random, false, [this](const Json& progress) {
    cancel_.is_set = cancel_.is_set || get_integer(progress, "step").value_or(0) >= 7;
  }));
  EXPECT_TRUE(get_bool(stopped, "cancelled").value_or(false));
  cancel_.is_set = false;
  TrainerClient second = start(random);
  const Json done = value_of(train(second, random, true));
  EXPECT_GT(get_integer(done, "resumed_from_step").value_or(0), 0);
  EXPECT_EQ(parameters_of(done), expected);
}

TEST_F(SeveralRanks, TellWhichOneDied) {
  recipes::Recipe endless = recipe(3);
  endless.train.epochs = kManyEpochs;
  TrainerClient client = start(endless);
  const std::vector<pid_t> others = children_of(client.pid());
  ASSERT_THAT(others, SizeIs(2));
  const auto failed = train(client, endless, false, [&](const Json& progress) {
    if (get_integer(progress, "step")) ::kill(others[1], SIGKILL);
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::crashed);
  EXPECT_THAT(failed.error().what, HasSubstr("rank 2 of 3 ended: signal 9"));
  // Nothing is loaded any more, and nobody is left.
  wait_for([&] { return !is_running(others[0]) && !is_running(others[1]); });
  // The same trainer can begin anew.
  const recipes::Recipe small = recipe(2);
  const auto loaded = client.request(
      "load", {{"recipe", small.to_json()}, {"configuration", starting(small).to_json()}}, kLimit);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_THAT(parameters_of(value_of(train(client, small))), SizeIs(64));
}

TEST_F(SeveralRanks, EndWithTheFirstOne) {
  recipes::Recipe endless = recipe(3);
  endless.train.epochs = kManyEpochs;
  TrainerClient client = start(endless);
  const std::vector<pid_t> others = children_of(client.pid());
  ASSERT_THAT(others, SizeIs(2));
  const auto failed = train(client, endless, false, [&](const Json& progress) {
    if (get_integer(progress, "step")) ::kill(client.pid(), SIGKILL);
  });
  EXPECT_FALSE(failed);
  wait_for([&] { return !is_running(others[0]) && !is_running(others[1]); });
}

TEST_F(SeveralRanks, FailTogether) {
  recipes::Recipe wild = recipe(2);
  wild.optimizer.parameters["lr"] = 1e30;
  TrainerClient client = start(wild);
  const auto failed = train(client, wild);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::invalid);
  EXPECT_THAT(failed.error().what, HasSubstr("the loss is not finite at step"));
}

// The other one does not wait for it, whatever is wrong with the file.
TEST_F(SeveralRanks, EndWhenOneCannotReadAFileOfItsShare) {
  const std::filesystem::path data = tests::source_folder() / "tests/trainer/input/data";
  recipes::Recipe pictures = recipe(2);
  pictures.data = {"image_files", {{"files", (folder_ / "*/*.jpg").string()}}};
  pictures.input = {{"decode", Json::object()}, {"to_float", Json::object()}};
  pictures.evaluation.reset();
  pictures.train.batch_size = 2;
  pictures.train.epochs = kManyEpochs;
  for (const char* name : {"ant", "cat"}) {
    std::filesystem::create_directory(folder_ / name);
    for (const char* file : {"1.jpg", "2.jpg", "3.jpg", "4.jpg"})
      std::filesystem::copy_file(data / "420_16x32.jpg", folder_ / name / file);
  }
  TrainerClient client = start(pictures);
  std::filesystem::copy_file(data / "cmyk.jpg", folder_ / "cat/3.jpg",
                             std::filesystem::copy_options::overwrite_existing);
  const auto failed = train(client, pictures);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(failed.error().message(), HasSubstr("cat/3.jpg"));
  EXPECT_THAT(failed.error().message(), HasSubstr("CMYK"));
}

TEST_F(SeveralRanks, RefuseWhatTheyCannotDoYet) {
  TrainerClient client = start(recipe(2));
  recipes::Recipe few = recipe(4);
  few.train.batch_size = 60;
  const auto never = client.request(
      "load", {{"recipe", few.to_json()}, {"configuration", starting(few).to_json()}}, kLimit);
  ASSERT_FALSE(never);
  EXPECT_THAT(
      never.error().what,
      HasSubstr("each of 4 ranks has 50 of the 200 samples, and a batch of 60 never fills"));
}

}  // namespace
}  // namespace autotuned::trainer
