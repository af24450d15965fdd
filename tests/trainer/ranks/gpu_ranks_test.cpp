// SPDX-License-Identifier: Apache-2.0
// Ranks on GPUs, which exchange gradients by NCCL: one rank on one GPU, and two where there are two. Skipped where there
// is no GPU, or where the build has no NCCL.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/trainer/ranks/ranks_scene.hpp"
#include "trainer/common/device.hpp"
#include "trainer/common/installed_library.hpp"
#include "trainer/ranks/rank_group.hpp"

namespace autotuned::trainer {
namespace {

using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::chrono::seconds kMaxUntilError(30);
constexpr std::chrono::seconds kUntilAborted(3);

class GpuRanks : public SeveralRanks {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(installed_library("libautotuned_nccl.so"))) {
      GTEST_SKIP() << "this build has no NCCL: run scripts/setup --cuda and build again";
    }
    static const Devices devices = open_devices();
    devices_ = devices;
    if (!devices_.cuda_reason.empty()) GTEST_SKIP() << devices_.cuda_reason;
    machine_.gpus.emplace_back();
  }

  // Of one rank: this process.
  [[nodiscard]] std::unique_ptr<RankGroup> group_of_one(std::vector<Descriptor> ties = {}) {
    const std::filesystem::path store = folder_ / ("store-" + std::to_string(groups_++));
    auto group = RankGroup::join({.rank = 0, .ranks = 1, .store = store}, kJoin, kRankPatience,
                                 GpuExchange{.device = 0, .ties = std::move(ties)});
    EXPECT_TRUE(group) << group.error().message();
    return group ? *std::move(group) : nullptr;
  }
  [[nodiscard]] Result<std::unique_ptr<Job>> load(const recipes::Recipe& asked,
                                                  RankGroup* group) const {
    return Job::load(asked, asked.starting_configuration(recipes::knobs_of(machine_)), machine_,
                     devices_, {}, group);
  }
  static recipes::Recipe on_gpu(recipes::Recipe asked) {
    asked.device = "cuda";
    asked.deterministic = true;
    return asked;
  }
  static std::string digest_after(Job& job, std::int64_t steps) {
    value_of(job.run_steps(steps, never));
    return value_of(job.digest());
  }
  [[nodiscard]] bool has_two_gpus() const { return devices_.names.size() > 2; }

  static constexpr std::chrono::seconds kJoin{60};
  Devices devices_;
  Machine machine_ = test_machine();

 private:
  int groups_ = 0;
};

// A mean over one rank changes nothing, whichever way gradients take.
TEST_F(GpuRanks, OneTrainsThroughNcclToTheBitsOfAJobWithout) {
  for (const recipes::Recipe& asked : {small_recipe(), patch_dropout_recipe()}) {
    const recipes::Recipe one = on_gpu(asked);
    const auto alone = value_of(load(one, nullptr));
    ASSERT_NE(alone, nullptr);
    const std::string expected = digest_after(*alone, 25);
    const auto group = group_of_one();
    ASSERT_NE(group, nullptr);
    auto job = value_of(load(one, group.get()));
    ASSERT_NE(job, nullptr);
    EXPECT_EQ(digest_after(*job, 25), expected);
    EXPECT_TRUE(group->check_exchange());
    job.reset();  // before the group
  }
}

// What comes of a rank that is killed, without one: its end of the tie closes. The process must live on.
TEST_F(GpuRanks, TheExchangeEndsWithARankThatLeaves) {
  auto tie = socket_pair();
  ASSERT_TRUE(tie) << tie.error().message();
  std::vector<Descriptor> ties;
  ties.push_back(std::move(tie->ours));
  const auto group = group_of_one(std::move(ties));
  ASSERT_NE(group, nullptr);
  auto job = value_of(load(on_gpu(small_recipe()), group.get()));
  ASSERT_NE(job, nullptr);
  value_of(job->run_steps(3, never));
  tie->theirs.reset();
  wait_for([&] { return !group->check_exchange(); });
  EXPECT_TRUE(is_of_connection(group->check_exchange().error()));
  // The notice comes before the abort, which no step may meet.
  std::this_thread::sleep_for(kUntilAborted);
  const auto failed = job->run_steps(1, never);
  ASSERT_FALSE(failed);
  EXPECT_TRUE(is_of_connection(failed.error())) << failed.error().message();
  job.reset();
}

TEST_F(GpuRanks, TwoTrainToTheSameParameters) {
  if (!has_two_gpus()) GTEST_SKIP() << "there is one GPU";
  const recipes::Recipe two = on_gpu(recipe(2));
  const std::string first = parameters_of(trained(two));
  EXPECT_THAT(first, SizeIs(64));
  EXPECT_EQ(parameters_of(trained(two)), first);
  EXPECT_EQ(member(facts_, "device_uuids").size(), 2U);
}

TEST_F(GpuRanks, AKilledOneEndsTheRequestOfAll) {
  if (!has_two_gpus()) GTEST_SKIP() << "there is one GPU";
  recipes::Recipe endless = on_gpu(recipe(2));
  endless.train.epochs = kManyEpochs;
  daemon::TrainerClient client = start(endless);
  const std::vector<pid_t> others = children_of(client.pid());
  ASSERT_THAT(others, SizeIs(1));
  steady_clock::time_point killed;
  const auto failed = train(client, endless, false, [&](const Json& progress) {
    if (!get_integer(progress, "step") || killed != steady_clock::time_point()) return;
    killed = steady_clock::now();
    ::kill(others[0], SIGKILL);
  });
  ASSERT_FALSE(failed);
  EXPECT_LT(steady_clock::now() - killed, kMaxUntilError);
  EXPECT_THAT(failed.error().what, HasSubstr("rank 1 of 2 ended: signal 9"));
  EXPECT_TRUE(client.is_alive());
}

}  // namespace
}  // namespace autotuned::trainer
