// SPDX-License-Identifier: Apache-2.0
// Trainings on several ranks by the real trainer, over its protocol.
#include <future>
#include <utility>

#include "tests/daemon/trainers/fake_session.hpp"
#include "tests/trainer/ranks/ranks_scene.hpp"

namespace autotuned::trainer {
namespace {

using daemon::TrainerClient;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

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
  random.train.epochs = 100;  // a cancel is noticed some steps later
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

// The first rank alone hears of it, and all of them end after the same step: otherwise one would wait for the others, and
// their parameters were not the same.
TEST_F(SeveralRanks, EndAfterTheSameStepWhenCancelled) {
  recipes::Recipe endless = recipe(3);
  endless.train.epochs = kManyEpochs;
  endless.evaluation.reset();
  daemon::CancelSwitch cancel;
  TrainerClient client = start(endless, cancel);
  const Json stopped = value_of(train(client, endless, false, [&](const Json& progress) {
    if (get_integer(progress, "epoch").value_or(0) >= 40) cancel.request();
  }));
  EXPECT_TRUE(get_bool(stopped, "cancelled").value_or(false));
  EXPECT_GE(get_integer(stopped, "steps").value_or(0), 39 * (200 / 3 / 20));
  EXPECT_THAT(parameters_of(stopped), SizeIs(64));
  EXPECT_TRUE(client.is_alive());
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
  EXPECT_EQ(failed.error().signal, SIGKILL);
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

// No connection tells of it. The others see a rank that is stopped, and the first one, too.
TEST_F(SeveralRanks, EndTheOneThatIsStoppedAndNameIt) {
  recipes::Recipe endless = recipe(2);
  endless.train.epochs = kManyEpochs;
  endless.evaluation.reset();
  TrainerClient of_other = start(endless);
  TrainerClient of_first = start(endless);
  const std::vector<pid_t> others = children_of(of_other.pid());
  const std::vector<pid_t> second = children_of(of_first.pid());
  ASSERT_THAT(others, SizeIs(1));
  ASSERT_THAT(second, SizeIs(1));
  const auto with_first = std::async(std::launch::async, [&] {
    return train(of_first, endless, false, [&](const Json& progress) {
      if (get_integer(progress, "step")) ::kill(of_first.pid(), SIGSTOP);
    });
  });
  const auto other = of_other.request("train",
                                      {{"configuration", starting(endless).to_json()},
                                       {"checkpoint_path", (folder_ / "other.pt").string()},
                                       {"resume", false},
                                       {"progress_every_ns", 1}},
                                      kLimit, [&](const Json& progress) {
                                        if (get_integer(progress, "step"))
                                          ::kill(others.front(), SIGSTOP);
                                      });
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::crashed);
  EXPECT_THAT(other.error().what, HasSubstr("rank 1 of 2 was stopped (SIGSTOP)"));
  wait_for([&] { return !is_running(others.front()); });
  with_first.wait();
  EXPECT_FALSE(of_first.is_alive());
  wait_for([&] { return !is_running(second.front()); });
}

TEST_F(SeveralRanks, FailTogether) {
  recipes::Recipe wild = recipe(2);
  wild.optimizer.parameters["lr"] = 1e30;
  TrainerClient client = start(wild);
  const auto failed = train(client, wild);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::invalid);
  EXPECT_THAT(failed.error().what, StartsWith("the loss is not finite at step")) << "of no rank";
}

// The other one does not wait for it, whatever is wrong with the file.
TEST_F(SeveralRanks, EndWhenOneCannotReadAFileOfItsShare) {
  const std::filesystem::path data = tests::source_folder() / "tests/trainer/input/data";
  recipes::Recipe pictures = recipe(2);
  pictures.data = {"image_files", {{"files", (folder_ / "*/*.jpg").string()}, {"shuffle", false}}};
  pictures.input = {{"decode", Json::object()}, {"to_float", Json::object()}};
  pictures.evaluation.reset();
  pictures.train.batch_size = 2;
  pictures.train.epochs = kManyEpochs;
  for (const char* name : {"ant", "cat"}) {
    std::filesystem::create_directory(folder_ / name);
    for (const char* file : {"1.jpg", "2.jpg", "3.jpg", "4.jpg"})
      std::filesystem::copy_file(data / "420_16x32.jpg", folder_ / name / file);
  }
  // In their order they are dealt out in turn.
  for (const auto& [file, rank] : {std::pair{"cat/3.jpg", 0}, std::pair{"cat/4.jpg", 1}}) {
    TrainerClient client = start(pictures);
    std::filesystem::copy_file(data / "cmyk.jpg", folder_ / file,
                               std::filesystem::copy_options::overwrite_existing);
    const auto failed = train(client, pictures);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::corrupt);
    EXPECT_THAT(failed.error().what, StartsWith("rank " + std::to_string(rank) + " of 2: "));
    EXPECT_THAT(failed.error().message(), HasSubstr(file));
    EXPECT_THAT(failed.error().message(), HasSubstr("CMYK"));
    std::filesystem::copy_file(data / "420_16x32.jpg", folder_ / file,
                               std::filesystem::copy_options::overwrite_existing);
  }
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
