// SPDX-License-Identifier: Apache-2.0
#include "daemon/logs/training_log.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;

Json step_told(std::int64_t step) {
  return {{"step", step}, {"steps_total", 1'000'000}, {"epoch", 1}, {"loss", 0.5}};
}

std::vector<std::int64_t> steps_of(const std::vector<Json>& lines) {
  std::vector<std::int64_t> steps;
  for (const Json& line : lines)
    steps.push_back(line.at("step"));
  return steps;
}

class TrainingLogTest : public testing::Test {
 protected:
  TrainingLog open(const std::string& run) const {
    auto log = TrainingLog::open(file_, run);
    if (!log) throw std::runtime_error(log.error().message());
    return *std::move(log);
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "training.jsonl";
};

TEST_F(TrainingLogTest, KeepsStepsAndEvaluations) {
  TrainingLog log = open("r-1");
  EXPECT_TRUE(log.add(step_told(100), 7, seconds(1)));
  EXPECT_TRUE(log.add({{"warning", "the cache is full"}}, 8, seconds(2)));
  EXPECT_TRUE(log.add({{"checkpoint", {{"step", 100}, {"bytes", 3}}}}, 8, seconds(2)));
  EXPECT_TRUE(log.add({{"evaluation", {{"epoch", 2}, {"accuracy", 0.75}, {"samples", 16}}}}, 9,
                      seconds(2)));
  const std::vector<Json> lines = read_training_log(file_, "r-1");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0],
            (Json{{"run", "r-1"}, {"unix_ns", 7}, {"step", 100}, {"epoch", 1}, {"loss", 0.5}}));
  EXPECT_EQ(
      lines[1],
      (Json{{"run", "r-1"}, {"unix_ns", 9}, {"step", 100}, {"epoch", 2}, {"test_accuracy", 0.75}}));
}

// Steps are told every half second, and epochs end between: each evaluation has the step that it was after.
TEST_F(TrainingLogTest, PutsAnEvaluationAtItsOwnStep) {
  const auto evaluated = [](std::int64_t step) {
    return Json{{"evaluation",
                 {{"epoch", step / 15},
                  {"step", step},
                  {"trained_samples", 32 * step},
                  {"accuracy", 0.75},
                  {"samples", 16}}}};
  };
  {
    TrainingLog log = open("r-1");
    Json told = step_told(12);
    told["samples"] = 384;
    EXPECT_TRUE(log.add(told, 7, seconds(1)));
    EXPECT_TRUE(log.add(evaluated(15), 8, seconds(2)));
    EXPECT_TRUE(log.add(step_told(20), 9, seconds(3)));
  }
  // Interrupted between the end of an epoch and its evaluation: nothing was told before it.
  TrainingLog log = open("r-1");
  EXPECT_TRUE(log.add(evaluated(30), 10, seconds(1)));
  const std::vector<Json> lines = read_training_log(file_, "r-1");
  EXPECT_THAT(steps_of(lines), ElementsAre(12, 15, 20, 30));
  EXPECT_EQ(lines[1], (Json{{"run", "r-1"},
                            {"unix_ns", 8},
                            {"step", 15},
                            {"samples", 480},
                            {"epoch", 1},
                            {"test_accuracy", 0.75}}));
}

// A trainer may tell of every step: a line in a second, and the last one.
TEST_F(TrainingLogTest, HasAFewLinesForAnyTraining) {
  TrainingLog log = open("r-1");
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(log.add(step_told(i), i, milliseconds(100 * i)));
  EXPECT_TRUE(log.add(step_told(1'000'000), 0, milliseconds(9'950)));
  EXPECT_THAT(steps_of(read_training_log(file_, "r-1")),
              ElementsAre(0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 1'000'000));

  TrainingLog days = open("r-2");
  constexpr int kHours = 24 * 30;
  std::int64_t step = 0;
  for (nanoseconds now{0}; now < hours(kHours); now += seconds(30))
    EXPECT_TRUE(days.add(step_told(++step), 0, now));
  EXPECT_LT(read_training_log(file_, "r-2").size(), 60'000U) << "of 86,400 that were told";
}

TEST_F(TrainingLogTest, GoesOnBehindTheSameRunAndDropsAnother) {
  {
    TrainingLog log = open("r-1");
    EXPECT_TRUE(log.add(step_told(10), 1, seconds(1)));
    EXPECT_TRUE(log.add(step_told(20), 2, seconds(2)));
    EXPECT_TRUE(log.add(step_told(30), 3, seconds(3)));
  }
  std::ofstream(file_, std::ios::app) << R"({"run": "r-1", "st)";  // killed
  {
    // From the checkpoint of step 15.
    TrainingLog log = open("r-1");
    EXPECT_TRUE(log.add(step_told(16), 4, seconds(1)));
  }
  EXPECT_THAT(steps_of(read_training_log(file_, "r-1")), ElementsAre(10, 16));
  EXPECT_TRUE(read_training_log(file_, "r-2").empty());
  {
    TrainingLog log = open("r-2");
    EXPECT_TRUE(log.add(step_told(1), 5, seconds(1)));
  }
  EXPECT_TRUE(read_training_log(file_, "r-1").empty());
  EXPECT_THAT(steps_of(read_training_log(file_, "r-2")), ElementsAre(1));
}

// A run that goes on with the training of another one: what the other has written stays, and belongs to it.
TEST_F(TrainingLogTest, GoesOnBehindARunWhoseTrainingItExtends) {
  {
    TrainingLog log = open("r-1");
    EXPECT_TRUE(log.add(step_told(10), 1, seconds(1)));
    EXPECT_TRUE(log.add(step_told(20), 2, seconds(2)));
  }
  for (const char* run : {"r-2", "r-3"}) {  // the first of them failed
    auto log = TrainingLog::open(file_, run, {"r-1"});
    ASSERT_TRUE(log) << log.error().message();
    EXPECT_TRUE(log->add(step_told(21), 3, seconds(1)));
  }
  EXPECT_THAT(steps_of(read_training_log(file_, "r-3", {"r-1"})), ElementsAre(10, 20, 21));
  EXPECT_EQ(read_training_log(file_, "r-3", {"r-1"}).back().at("run"), "r-3");
  EXPECT_THAT(steps_of(read_training_log(file_, "r-1")), ElementsAre(10, 20));
}

// As after `history prune`: the log begins with a run that nobody knows any more.
TEST_F(TrainingLogTest, OfALongerTrainingDropsNothing) {
  {
    TrainingLog log = open("r-gone");
    EXPECT_TRUE(log.add(step_told(10), 1, seconds(1)));
  }
  auto log = TrainingLog::open(file_, "r-3", {"r-2"});
  ASSERT_TRUE(log) << log.error().message();
  EXPECT_TRUE(log->add(step_told(21), 3, seconds(1)));
  EXPECT_THAT(steps_of(read_training_log(file_, "r-gone")), ElementsAre(10));
  EXPECT_THAT(steps_of(read_training_log(file_, "r-3", {"r-2"})), ElementsAre(21));
}

// With larger batches the same place has a smaller number of steps.
TEST_F(TrainingLogTest, GoesOnWithBatchesOfAnotherSize) {
  const auto told = [](std::int64_t step, std::int64_t samples) {
    Json progress = step_told(step);
    progress["samples"] = samples;
    return progress;
  };
  {
    TrainingLog log = open("r-1");
    EXPECT_TRUE(log.add(told(10, 200), 1, seconds(1)));
    EXPECT_TRUE(log.add(told(20, 400), 2, seconds(2)));
    EXPECT_TRUE(log.add({{"evaluation", {{"epoch", 1}, {"accuracy", 0.75}}}}, 3, seconds(2)));
    EXPECT_TRUE(log.add(told(30, 600), 4, seconds(3)));
  }
  {
    // From the checkpoint of step 20, which is step 10 of this size.
    TrainingLog log = open("r-1");
    EXPECT_TRUE(log.add(told(11, 440), 5, seconds(1)));
  }
  const std::vector<Json> lines = read_training_log(file_, "r-1");
  EXPECT_THAT(steps_of(lines), ElementsAre(10, 20, 20, 11));
  EXPECT_EQ(lines[2].at("samples"), 400);
}

// A file of somebody is neither emptied nor appended to, by whatever link.
TEST_F(TrainingLogTest, FollowsNoLink) {
  const std::filesystem::path precious = folder_.write("precious", "precious\n");
  for (const bool is_hard : {false, true}) {
    for (const bool goes_on : {false, true}) {
      std::filesystem::remove(file_);
      if (is_hard) {
        std::filesystem::create_hard_link(precious, file_);
      } else {
        std::filesystem::create_symlink(precious, file_);
      }
      auto log = TrainingLog::open(
          file_, "r-2", goes_on ? std::vector<std::string>{"r-1"} : std::vector<std::string>());
      ASSERT_TRUE(log) << log.error().message();
      EXPECT_TRUE(log->add(step_told(1), 7, seconds(1)));
      EXPECT_EQ(folder_.read("precious"), "precious\n") << is_hard << goes_on;
      EXPECT_THAT(steps_of(read_training_log(file_, "r-2")), ElementsAre(1));
    }
  }
}

// Opening it would wait for somebody at its other end.
TEST_F(TrainingLogTest, WaitsForNoPipe) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_TRUE(read_training_log(file_, "r-1").empty());
  TrainingLog log = open("r-1");
  EXPECT_TRUE(log.add(step_told(1), 7, seconds(1)));
  EXPECT_THAT(steps_of(read_training_log(file_, "r-1")), ElementsAre(1));
}

TEST_F(TrainingLogTest, SaysThatItCannotBeWritten) {
  const auto log = TrainingLog::open(folder_ / "none/training.jsonl", "r-1");
  ASSERT_FALSE(log);
  EXPECT_THAT(log.error().message(), testing::HasSubstr("training.jsonl"));
  EXPECT_TRUE(read_training_log(folder_ / "none/training.jsonl", "r-1").empty());
}

}  // namespace
}  // namespace autotuned::daemon
