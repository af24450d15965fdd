// SPDX-License-Identifier: Apache-2.0
// What a job is evaluated on, and that evaluating changes nothing.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "tests/golden.hpp"
#include "tests/places.hpp"
#include "tests/trainer/job/photo_job.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TestResult evaluated(Job& job) {
  return value_of(job.evaluate(never));
}

// Evaluates the initial state, in which a recipe's transforms have no part.
TestResult evaluated(const recipes::Recipe& recipe) {
  const auto job = load(recipe);
  return job != nullptr ? evaluated(*job) : TestResult{};
}

void expect_same(const TestResult& one, const TestResult& other) {
  EXPECT_EQ(one.loss, other.loss);
  EXPECT_EQ(one.accuracy, other.accuracy);
  EXPECT_EQ(one.samples, other.samples);
}

std::string message_of(const recipes::Recipe& recipe) {
  const auto job = Job::load(recipe, starting(recipe), test_machine(), cpu_only());
  return job ? std::string() : job.error().message();
}

std::string trained(const recipes::Recipe& recipe) {
  const Folder folder;
  const auto job = load(recipe);
  if (job == nullptr) return {};
  value_of(train(
      *job, {.checkpoint_path = folder / "c"}, [](const Json&) {}, never));
  return value_of(job->digest());
}

recipes::Recipe coloured_recipe(std::vector<recipes::Component> input) {
  recipes::Recipe recipe = small_recipe();
  recipe.data.parameters["shape"] = {3, 20, 24};
  recipe.evaluation->data.parameters["shape"] = {3, 20, 24};
  recipe.input = std::move(input);
  return recipe;
}

const recipes::Component kFloats = {"to_float", Json::object()};

// With a mask over everything, what is trained is black; what is tested on is not.
TEST(Evaluation, SeesWhatTrainingMasks) {
  const TestResult seen = evaluated(coloured_recipe({kFloats}));
  const TestResult masked =
      evaluated(coloured_recipe({{"random_mask", {{"ratio", 1.0}}}, kFloats}));
  expect_same(masked, seen);
  recipes::Recipe black = coloured_recipe({{"scale", {{"by", 1e-30}}}});
  EXPECT_NE(evaluated(black).loss, seen.loss);
}

TEST(Evaluation, HasNothingRandomInIt) {
  recipes::Recipe random = coloured_recipe({{"color_jitter", {{"brightness", {0.0, 0.5}}}},
                                            {"random_flip", {{"probability", 1.0}}},
                                            {"random_resized_crop", {{"size", 14}}},
                                            {"random_crop", {{"size", {9, 8}}}},
                                            kFloats});
  recipes::Recipe listed = random;
  listed.evaluation->input = std::vector<recipes::Component>{{"resize_shorter", {{"size", 16}}},
                                                             {"center_crop", {{"size", 14}}},
                                                             {"center_crop", {{"size", {9, 8}}}},
                                                             kFloats};
  expect_same(evaluated(random), evaluated(listed));
  // Another seed draws nothing else: the model aside, which is made from it.
  const auto job = load(random);
  ASSERT_NE(job, nullptr);
  expect_same(evaluated(*job), evaluated(*job));
}

TEST(Evaluation, FollowsItsOwnListWhereThereIsOne) {
  recipes::Recipe recipe = coloured_recipe({{"random_crop", {{"size", 8}}}, kFloats});
  const double middle = evaluated(recipe).loss;
  recipe.evaluation->input = std::vector<recipes::Component>{{"resize", {{"size", 8}}}, kFloats};
  EXPECT_NE(evaluated(recipe).loss, middle);
  EXPECT_EQ(load(recipe)->facts().sample_shape, (std::vector<std::int64_t>{3, 8, 8}));
}

TEST(Evaluation, SaysWhatItsListMayNotBe) {
  recipes::Recipe recipe = coloured_recipe({{"random_crop", {{"size", 8}}}, kFloats});
  recipe.evaluation->input = std::vector<recipes::Component>{recipe.input[0], kFloats};
  tests::Cases cases;
  cases.add("a random crop", message_of(recipe));
  recipe.evaluation->input = std::vector<recipes::Component>{kFloats};
  cases.add("another shape", message_of(recipe));
  recipe.evaluation->input = std::vector<recipes::Component>{kFloats, {"resize", {{"size", 8}}}};
  cases.add("another order", message_of(recipe));
  tests::expect_golden("trainer/job/golden/evaluation.txt", cases.text());
}

// 50 samples in batches of 20: the last one is not full, and counts by its samples.
TEST(Evaluation, CountsEverySampleOnce) {
  recipes::Recipe recipe = small_recipe();
  ASSERT_TRUE(recipe.train.drop_last);
  const TestResult in_parts = evaluated(recipe);
  recipe.train.batch_size = 50;
  const TestResult at_once = evaluated(recipe);
  EXPECT_EQ(in_parts.samples, 50);
  EXPECT_EQ(in_parts.accuracy, at_once.accuracy);
  EXPECT_NEAR(in_parts.loss, at_once.loss, 1e-6);
}

// The accuracy is the diagonal's share of the matrix, which has each sample once.
TEST(Evaluation, CountsClassesToo) {
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["classes"] = 6;
  const TestResult result = evaluated(recipe);
  ASSERT_EQ(result.confusion.size(), 6U);
  std::int64_t samples = 0;
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) {
      samples += result.confusion[i][j];
      if (i == j) correct += result.confusion[i][j];
    }
  }
  EXPECT_EQ(samples, result.samples);
  EXPECT_DOUBLE_EQ(static_cast<double>(correct) / static_cast<double>(samples), result.accuracy);
  ASSERT_TRUE(result.top5_accuracy);
  EXPECT_GE(*result.top5_accuracy, result.accuracy);
}

TEST(Evaluation, IsTheSameWhateverIsTuned) {
  const Folder folder;
  const CacheHome home(folder / "cache");
  recipes::Recipe recipe = small_recipe();
  const auto files = tests::source_folder() / "tests/trainer/input/data/4*_37x51.jpg";
  recipe.data = {
      "jpeg_files",
      {{"files", files.string()}, {"repeat_to", 200}, {"labels", "random"}, {"classes", 4}}};
  recipe.evaluation->data = {
      "jpeg_files",
      {{"files", files.string()}, {"repeat_to", 50}, {"labels", "random"}, {"classes", 4}}};
  recipe.input = {{"decode_jpeg", Json::object()},
                  {"random_resized_crop", {{"size", 8}}},
                  {"random_mask", {{"ratio", 0.5}}},
                  {"to_float", Json::object()}};
  const Configuration start = starting(recipe);
  const auto job = load(recipe, start);
  ASSERT_NE(job, nullptr);
  const TestResult expected = evaluated(*job);
  const std::vector<std::pair<std::string, KnobValue>> changes = {
      {"transfer.dtype", std::string("uint8")},       {"input.decode", std::string("crop")},
      {"input.decode_scale", std::string("quarter")}, {"input.order", std::string("crop_first")},
      {"input.cache", std::string("decoded")},        {"input.cache", std::string("raw")},
      {"input.point_ops", std::string("fused")},      {"input.point_ops", std::string("per_batch")},
      {"input.point_ops", std::string("device")},     {"loader.workers", std::int64_t{2}},
      {"input.dilation", std::string("bits")},        {"input.read_ahead", std::int64_t{0}}};
  for (const auto& [knob, value] : changes) {
    SCOPED_TRACE(knob);
    value_of(job->prepare(with(start, knob, value)));
    value_of(job->run_steps(1, never));
    ASSERT_TRUE(job->restore("initial"));
    expect_same(evaluated(*job), expected);
  }
}

// The transforms of the test end in no table, although bytes travel in training.
TEST(Evaluation, MayTakeFloatsWhereTrainingSendsBytes) {
  recipes::Recipe recipe = coloured_recipe({kFloats});
  recipe.evaluation->input =
      std::vector<recipes::Component>{{"rgb_to_yuv", Json::object()}, {"scale", {{"by", "1/255"}}}};
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const TestResult expected = evaluated(*job);
  value_of(job->prepare(with(starting(recipe), "transfer.dtype", std::string("uint8"))));
  expect_same(evaluated(*job), expected);
}

// However long it lasts, the next step is reported, at the rate of the steps alone.
TEST(Evaluation, DelaysNoReportOfProgress) {
  constexpr std::chrono::milliseconds kLasts(500);
  const Folder folder;
  const auto job = load(small_recipe());
  ASSERT_NE(job, nullptr);
  std::vector<Json> steps;
  bool is_evaluated = false;
  const ProgressSink sink = [&](const Json& told) {
    if (told.contains("step")) steps.push_back(told);
    if (told.contains("evaluation") && !std::exchange(is_evaluated, true)) {
      std::this_thread::sleep_for(kLasts);
    }
  };
  const std::int64_t every_ns = std::chrono::nanoseconds(kLasts).count();
  value_of(
      train(*job, {.checkpoint_path = folder / "c", .progress_every_ns = every_ns}, sink, never));
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].at("step"), 11) << "the first one after the first evaluation";
  EXPECT_EQ(steps[1].at("step"), 20);
  const double seconds = std::chrono::duration<double>(kLasts).count();
  EXPECT_GT(steps[0].at("samples_per_second").get<double>(),
            steps[0].at("samples").get<double>() / seconds);
}

// Bit for bit: neither the model's buffers nor random numbers nor the place in the data are touched.
TEST(Evaluation, LeavesTheTrainingAsItIs) {
  for (recipes::Recipe recipe : {small_recipe(), patch_dropout_recipe()}) {
    recipe.input.insert(recipe.input.begin(), {"random_mask", {{"ratio", 0.2}}});
    recipe.train = {.epochs = 3, .steps = {}, .batch_size = 20, .drop_last = false};
    const std::string every_epoch = trained(recipe);
    recipe.evaluation->every = "end";
    EXPECT_EQ(trained(recipe), every_epoch);
    recipe.evaluation.reset();
    EXPECT_EQ(trained(recipe), every_epoch);
  }
}

class Split : public testing::Test {
 protected:
  static recipes::Recipe recipe() {
    recipes::Recipe recipe = small_recipe();
    recipe.evaluation->data = {};
    recipe.evaluation->split_ratio = 0.15;
    return recipe;
  }
};

TEST_F(Split, LeavesTheTrainingTheRest) {
  const auto job = load(recipe());
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().train_samples, 170);
  EXPECT_EQ(job->facts().test_samples, 30);
  const Folder folder;
  const TrainingSummary summary = value_of(train(
      *job, {.checkpoint_path = folder / "c"}, [](const Json&) {}, never));
  EXPECT_EQ(summary.steps, 16);  // two epochs of 8 whole batches of 20
  ASSERT_TRUE(summary.test);
  EXPECT_EQ(summary.test->samples, 30);
}

TEST_F(Split, IsOfTheSeedAndTheSameWhenTrainingGoesOn) {
  const std::string whole = trained(recipe());
  EXPECT_EQ(trained(recipe()), whole);
  const Folder folder;
  const TrainRequest request{.checkpoint_path = folder / "c", .resume = true};
  const auto first = load(recipe());
  int asked = 0;
  const auto part = value_of(train(
      *first, request, [](const Json&) {}, [&] { return ++asked > 0; }));
  EXPECT_TRUE(part.was_cancelled);
  const auto second = load(recipe());
  const auto rest = value_of(train(
      *second, request, [](const Json&) {}, never));
  EXPECT_GT(rest.resumed_from_step, 0);
  EXPECT_EQ(value_of(second->digest()), whole);
  // The test set is the same as in the whole training, too.
  const auto again = load(recipe());
  const auto all = value_of(train(
      *again, {.checkpoint_path = folder / "d"}, [](const Json&) {}, never));
  expect_same(*rest.test, *all.test);
}

TEST_F(Split, IsTheSameForEveryConfiguration) {
  const auto job = load(recipe());
  ASSERT_NE(job, nullptr);
  const TestResult expected = evaluated(*job);
  const Configuration start = starting(recipe());
  const auto losses = value_of(job->run_steps(20, never)).losses;
  for (const Configuration& other :
       {with(start, "loader.workers", std::int64_t{2}), with(start, "transfer.dtype", "uint8")}) {
    const auto another = load(recipe(), other);
    expect_same(evaluated(*another), expected);
    EXPECT_EQ(value_of(another->run_steps(20, never)).losses, losses);
  }
}

class Classes : public testing::Test {
 protected:
  void put(const std::vector<std::string>& files) const {
    for (const std::string& file : files) {
      const auto path = folder_ / file;
      std::filesystem::create_directories(path.parent_path());
      std::filesystem::copy_file(tests::source_folder() / "tests/trainer/input/data/420_16x32.jpg",
                                 path);
    }
  }
  [[nodiscard]] recipes::Recipe recipe() const {
    recipes::Recipe recipe = small_recipe();
    recipe.data = {"image_files", {{"files", (folder_ / "train/*/*.jpg").string()}}};
    recipe.evaluation->data = {"image_files", {{"files", (folder_ / "test/*/*.jpg").string()}}};
    recipe.input = {{"decode", Json::object()}, kFloats};
    recipe.train.batch_size = 2;
    return recipe;
  }
  Folder folder_;
};

// So that others can test the model on samples that it has not seen.
TEST_F(Classes, OfASplitHaveAListOfWhatIsHeldOut) {
  std::vector<std::string> files;
  for (const char* const name : {"ant", "cat"}) {
    for (int i = 0; i < 5; ++i)
      files.push_back("train/" + std::string(name) + "/" + std::to_string(i) + ".jpg");
  }
  put(files);
  recipes::Recipe split = recipe();
  split.evaluation = recipes::Evaluation{.every = "epoch"};
  split.evaluation->split_ratio = 0.4;
  const auto job = load(split);
  ASSERT_NE(job, nullptr);
  value_of(job->save_model(folder_ / "model_best.pt"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "held_out.txt")) << "that is no end of a training";
  value_of(job->save_model(folder_ / "model.pt"));
  std::istringstream lines(value_of(read_file(folder_ / "held_out.txt", 10'000)));
  std::set<std::string> held_out;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(std::filesystem::is_regular_file(line)) << line;
    held_out.insert(line);
  }
  EXPECT_EQ(held_out.size(), 4U);

  value_of(load(small_recipe())->save_model(folder_ / "model.pt"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "held_out.txt")) << "of an earlier training";
}

TEST_F(Classes, AreThoseOfTheTraining) {
  put({"train/ant/1.jpg", "train/cat/1.jpg", "train/dog/1.jpg", "test/cat/1.jpg", "test/dog/1.jpg",
       "test/emu/1.jpg", "test/bee/1.jpg"});
  EXPECT_THAT(message_of(recipe()),
              AllOf(HasSubstr("evaluate.data"), HasSubstr("bee, emu"), HasSubstr("ant, cat, dog")));
}

TEST_F(Classes, ThatAreMissingAreNamed) {
  put({"train/ant/1.jpg", "train/cat/1.jpg", "train/dog/1.jpg", "test/cat/1.jpg"});
  const auto job = load(recipe());
  ASSERT_NE(job, nullptr);
  const auto warnings = job->take_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0].message(), AllOf(HasSubstr("evaluate.data"), HasSubstr("ant, dog;")));
  put({"test/ant/1.jpg", "test/dog/1.jpg"});
  EXPECT_THAT(load(recipe())->take_warnings(), IsEmpty());
}

TEST_F(Classes, ThatLookAlikeAreToldOf) {
  put({"train/Cat/1.jpg", "train/cat/1.jpg", "train/dog/1.jpg"});
  recipes::Recipe alike = recipe();
  alike.evaluation.reset();
  const auto job = load(alike);
  ASSERT_NE(job, nullptr);
  const auto warnings = job->take_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0].message(),
              AllOf(HasSubstr("data: 1 name differs"), HasSubstr("\"Cat\" and \"cat\"")));
}

TEST_F(Classes, HaveNamesInBothOrInNone) {
  put({"train/ant/1.jpg", "train/cat/1.jpg", "test/ant/1.jpg", "test/cat/1.jpg"});
  recipes::Recipe numbers = recipe();
  numbers.data.parameters["labels"] = "random";
  EXPECT_THAT(message_of(numbers), AllOf(HasSubstr("the classes are names (ant, cat)"),
                                         HasSubstr("those of the training data are numbers")));
}

TEST_F(Classes, ThatNobodyCanLearnAreToldOf) {
  recipes::Recipe recipe = small_recipe();
  recipe.data.parameters["classes"] = 3;
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const auto warnings = job->take_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0].message(),
              HasSubstr("evaluate.data: there are 4 classes, and the training data have 3"));
}

// A run tells it as the check does. The accuracy of one sample is 0 % or 100 %.
TEST_F(Classes, OfWhichTheTestHasTooFewSamplesAreToldOf) {
  const auto warnings_of = [](const recipes::Recipe& recipe) {
    const auto job = load(recipe);
    std::vector<std::string> told;
    if (job == nullptr) return told;
    for (const Error& warning : job->take_warnings())
      told.push_back(warning.message());
    return told;
  };
  const std::string few = ", fewer than the 4 classes: its accuracy says little";
  recipes::Recipe recipe = small_recipe();
  recipe.evaluation->data.parameters["samples"] = 3;
  EXPECT_EQ(warnings_of(recipe),
            std::vector<std::string>{"evaluate.data: the test has 3 samples" + few});
  recipe.evaluation->data.parameters["samples"] = 4;
  EXPECT_THAT(warnings_of(recipe), IsEmpty());
  recipe.evaluation = recipes::Evaluation{.every = "epoch"};
  recipe.evaluation->split_ratio = 0.000001;
  EXPECT_EQ(warnings_of(recipe),
            std::vector<std::string>{"evaluate.split: the test has 1 sample" + few});
}

}  // namespace
}  // namespace autotuned::trainer
