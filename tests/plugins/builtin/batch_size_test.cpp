// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;

constexpr const char* kBatchSize = "batch_size";

Json change(int size) {
  return {{kBatchSize, size}};
}

// Samples per second, relative, of a step whose fixed costs are worth `fixed` samples.
double rate(int size, double fixed) {
  return size / (size + fixed);
}

// Asks until there is nothing more, as the tuner would; `measure` is the rate at a size, 0 for a
// failure. Returns the sizes in the order in which they were tried.
template <class Measure>
std::vector<int> search(Json& json, const Measure& measure) {
  std::vector<int> tried;
  for (int question = 0; question < 20; ++question) {
    const Json next = first_change(ask("batch_size", json));
    if (next.is_null()) return tried;
    const int size = next.at(kBatchSize);
    const int now = json.at("incumbent").at(kBatchSize);
    tried.push_back(size);
    const double ratio = measure(size) / measure(now);
    const char* verdict = ratio == 0 ? "failed" : ratio > 1.02 ? "accepted" : "rejected";
    tell(json, change(size), verdict, ratio);
  }
  ADD_FAILURE() << "the search does not end";
  return tried;
}

TEST(BatchSize, StartsWithALargeJump) {
  Answers answers("batch_size");
  const Json answer = answers.proposes("32 samples", situation("fashion_cnn_cpu"), change(128));
  EXPECT_GT(first_gain(answer), 1.02);
  EXPECT_LT(first_gain(answer), 2.0);
}

TEST(BatchSize, GrowsAsLongAsTheTimePerSampleFalls) {
  Answers answers("batch_size");
  Json json = situation("fashion_cnn_cpu");
  EXPECT_THAT(search(json, [](int size) { return rate(size, 200); }), ElementsAre(128, 512, 1024));
  EXPECT_EQ(json["incumbent"][kBatchSize], 1024);
  answers.declines("the largest size", json);
}

TEST(BatchSize, StopsWhereNothingIsLeftToWin) {
  Answers answers("batch_size");
  Json json = situation("fashion_cnn_cpu");
  // Fixed costs of 8 samples: 20 % at 32, 6 % at 128, and then too little to look for.
  EXPECT_THAT(search(json, [](int size) { return rate(size, 8); }), ElementsAre(128, 512));
  answers.declines("two sizes were tried", json);
}

TEST(BatchSize, GivesUpAfterOneTrialWhereSizeDoesNotMatter) {
  Answers answers("batch_size");
  Json json = situation("fashion_cnn_cpu");
  EXPECT_THAT(search(json, [](int) { return 1.0; }), ElementsAre(128));
  answers.declines("one size was tried", json);
}

TEST(BatchSize, StepsBackWhereItWentTooFar) {
  Json json = situation("fashion_cnn_cpu");
  // The caches run out above 64.
  const auto measure = [](int size) { return size <= 64 ? rate(size, 20) : 0.5; };
  EXPECT_THAT(search(json, measure), ElementsAre(128, 64));
  EXPECT_EQ(json["incumbent"][kBatchSize], 64);
}

TEST(BatchSize, LooksBelowAJumpThatWasFollowedBySlowerOnes) {
  Json json = situation("fashion_cnn_cpu");
  const auto measure = [](int size) {
    return size == 32 ? 1.0 : size == 64 ? 1.5 : size == 128 ? 1.4 : 1.0;
  };
  EXPECT_THAT(search(json, measure), ElementsAre(128, 512, 64));
  EXPECT_EQ(json["incumbent"][kBatchSize], 64);
}

TEST(BatchSize, GoesSmallerAfterRunningOutOfMemory) {
  Answers answers("batch_size");
  Json json = situation("fashion_cnn_cpu");
  json["metrics"].erase("memory.peak_host_bytes");
  const auto measure = [](int size) { return size > 200 ? 0.0 : rate(size, 200); };
  // As long as the time per sample still falls by 2 % or more.
  EXPECT_THAT(search(json, measure), ElementsAre(128, 512, 256, 192, 224, 208, 200));
  EXPECT_EQ(json["incumbent"][kBatchSize], 200);
  answers.declines("the largest size that fits", json);
}

// Memory is 300 MiB and 4 MiB per sample; the limit is 2 GiB, so 437 samples would just fit.
TEST(BatchSize, StaysBelowTheMemoryLimit) {
  Answers answers("batch_size");
  Json json = situation("fashion_cnn_cpu");
  const auto memory = [](int size) { return (300LL << 20) + size * (4LL << 20); };
  json["metrics"]["memory.peak_host_bytes"] = memory(32);
  json["permissions"]["memory_limit_bytes"] = 2LL << 30;
  std::vector<int> tried;
  for (int question = 0; question < 20; ++question) {
    const Json next = first_change(ask("batch_size", json));
    if (next.is_null()) break;
    const int size = next.at(kBatchSize);
    tried.push_back(size);
    EXPECT_LE(memory(size), 2LL << 30) << size;
    tell(json, next, "accepted", 1.3);
    json["trials"].back()["peak_memory_bytes"] = memory(size);
    json["metrics"]["memory.peak_host_bytes"] = memory(size);
  }
  ASSERT_FALSE(tried.empty());
  EXPECT_GT(tried.back(), 330) << "the model should come close to the limit";
  answers.declines("the largest size that fits", json);
}

TEST(BatchSize, NeedsNoTrialToKnowThatNothingFits) {
  Json json = situation("fashion_cnn_cpu");
  json["permissions"]["memory_limit_bytes"] = json["metrics"]["memory.peak_host_bytes"];
  Answers("batch_size").declines("a limit that is reached", json);
}

TEST(BatchSize, LooksAtTheMemoryOfTheGpuThere) {
  Json json = situation("resnet18_gpu");
  // 1.5 GiB at 32 samples; without a limit of the recipe 90 % of the device counts.
  json["permissions"]["memory_limit_bytes"] = 0;
  json["job"]["device_memory_bytes"] = 4LL << 30;
  const Json answer = ask("batch_size", json);
  EXPECT_EQ(first_change(answer), change(72));
}

TEST(BatchSize, BelievesATraceOfTheGpu) {
  Json json = situation("resnet18_gpu");
  json["metrics"]["device.launch_wait_ratio"] = 0.3;
  json["metrics"]["device.unfilled_ratio"] = 0.2;
  Answers answers("batch_size");
  const Json answer = answers.proposes("a GPU that waits", json, change(128));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.5 * 0.75), 1e-9);
  answers.proposes("a CPU", json, change(128), {{"job", {{"device", "cpu"}}}});
}

TEST(BatchSize, NeverExceedsTheDataSetOrTheRecipe) {
  Answers answers("batch_size");
  Json json = situation("fashion_cnn_cpu");
  json["job"]["train_samples"] = 100;
  EXPECT_EQ(first_change(ask("batch_size", json)), change(96));
  json["permissions"]["batch_size_max"] = 48;
  EXPECT_THAT(search(json, [](int size) { return rate(size, 200); }), Each(Le(48)));
  json["incumbent"][kBatchSize] = 48;
  answers.declines("the largest size", json);
}

TEST(BatchSize, AsksForPermission) {
  Json json = situation("fashion_cnn_cpu");
  json["permissions"]["knobs"] = Json::array();
  Answers("batch_size").declines("no consent", json);
}

TEST(BatchSize, StartsAnewAgainstAnotherIncumbent) {
  Json json = situation("fashion_cnn_cpu");
  tell(json, change(128), "rejected", 1.0);
  json["incumbent"]["precision.autocast"] = "bf16";
  EXPECT_EQ(first_change(ask("batch_size", json)), change(128));
}

TEST(BatchSize, SurvivesOddNumbers) {
  for (const int now : {1, 2, 3, 5, 17}) {
    Json json = situation("fashion_cnn_cpu");
    json["incumbent"][kBatchSize] = now;
    EXPECT_THAT(search(json, [](int size) { return rate(size, 30); }), Each(Le(1024))) << now;
  }
  Json json = situation("fashion_cnn_cpu");
  json["metrics"] = Json::object();
  EXPECT_EQ(first_change(ask("batch_size", json)), change(128));
  json["incumbent"][kBatchSize] = 0;
  Answers("batch_size").declines("no size", json);
}

}  // namespace
}  // namespace autotuned::plugins
