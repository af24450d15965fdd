// SPDX-License-Identifier: Apache-2.0
// Settings of the environment that a user's plugin proposes, tried in real trainers through a whole run: one that nothing
// reads, and one with which the threads of a trainer spin while they wait.
#include <gmock/gmock.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kRatio = "[0-9.]+ times the rate \\(.+\\) over [0-9]+ pairs?";
// No fewer can accept (docs/statistics.md, "Pairs of processes").
constexpr int kFewestProcessPairs = 7;

std::string read_process(pid_t process, const char* what) {
  std::ifstream input("/proc/" + std::to_string(process) + "/" + what, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

bool is_stopped(pid_t process) {
  const std::string stat = read_process(process, "stat");
  // "7 (name) T 1 ...", where the name may hold anything.
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.compare(name_end, 3, ") T") == 0;
}

// Which trainer was seen to be stopped while the other was not: that with a setting of the environment, or that without.
class StopWatch {
 public:
  StopWatch(const Scene& scene, std::string setting)
      : scene_(&scene), setting_(std::move(setting)), thread_([this](std::stop_token stop) {
          while (!stop.stop_requested()) {
            look();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}

  void stop() {
    thread_.request_stop();
    thread_.join();
  }
  [[nodiscard]] bool saw_candidate_wait() const { return saw_candidate_wait_; }
  [[nodiscard]] bool saw_reference_wait() const { return saw_reference_wait_; }

 private:
  void look() {
    struct Arm {
      bool runs = false;
      bool waits = false;
    };
    Arm candidate;
    Arm reference;
    for (const pid_t trainer : scene_->trainers()) {
      const bool is_candidate =
          read_process(trainer, "environ").find(setting_) != std::string::npos;
      Arm& arm = is_candidate ? candidate : reference;
      (is_stopped(trainer) ? arm.waits : arm.runs) = true;
    }
    saw_candidate_wait_ = saw_candidate_wait_ || (candidate.waits && reference.runs);
    saw_reference_wait_ = saw_reference_wait_ || (reference.waits && candidate.runs);
  }

  const Scene* scene_;
  std::string setting_;
  bool saw_candidate_wait_ = false;
  bool saw_reference_wait_ = false;
  std::jthread thread_;  // the last, since it uses the others
};

class RestartKnobs : public testing::Test {
 protected:
  RestartKnobs() {
    scene_.use_real_trainer();
    // Large enough that several threads share an operator, and wait for each other.
    scene_.write_job(
        "model: {type: mlp, hidden: 512, classes: 4}\n"
        "data: {type: synthetic, samples: 4096, shape: [1, 16, 16], classes: 4}\n"
        "input: [scale: {by: 1/255}]\noptimizer: {type: sgd, lr: 0.1}\n"
        "train: {epochs: 2, batch_size: 128}\ntune: {plugins: [settings], budget: 60s}\n");
  }

  // A run in which a plugin proposes `change`, alone. Every trial has a ratio, and says so.
  Json tune(const std::string& change) const {
    const std::filesystem::path plugins = scene_.write_plugin("settings", change);
    Json run = result_of(scene_.run({"--tune-only", "--plugin-dir", plugins.string()}));
    EXPECT_FALSE(run.at("trials").empty()) << run;
    for (const Json& trial : run.at("trials")) {
      EXPECT_EQ(trial.at("failure"), Json()) << trial.dump(1);
      EXPECT_TRUE(trial.at("ratio").is_number()) << trial.dump(1);
      EXPECT_GE(trial.at("process_pairs"), 1) << trial.dump(1);
      EXPECT_THAT(trial.at("reason").get<std::string>(), ContainsRegex(kRatio));
    }
    return run;
  }

  Scene scene_;
};

TEST_F(RestartKnobs, APlaceboIsNotKeptAndItsRatioIsTheReason) {
  const Json run = tune("env.PLACEBO_A: 1");
  const Json& trials = run.at("trials");
  EXPECT_EQ(trials.at(0).at("plugin"), "settings");
  EXPECT_EQ(trials.at(0).at("change"), Json::object({{"env.PLACEBO_A", "1"}}));
  EXPECT_FALSE(run.at("best").at("configuration").contains("env.PLACEBO_A")) << trials.dump(1);
  EXPECT_EQ(run.at("best").at("speedup"), 1.0);
}

// It once won by burning the CPUs of the trainer that it was compared with. Whether it is faster alone is the job's and the
// machine's matter: here it may win, but only in processes of its own while its neighbour is stopped, and the other way round.
TEST_F(RestartKnobs, ThreadsThatSpinDoNotWinBySlowingTheirNeighbour) {
  StopWatch watch(scene_, "OMP_WAIT_POLICY=active");
  const Json run = tune("env.OMP_WAIT_POLICY: active");
  watch.stop();
  EXPECT_TRUE(watch.saw_candidate_wait());
  EXPECT_TRUE(watch.saw_reference_wait());
  const Json& trials = run.at("trials");
  EXPECT_EQ(trials.at(0).at("plugin"), "settings");
  // What a trainer uses while it should wait disturbs the trial.
  EXPECT_THAT(trials.dump(), Not(HasSubstr("slows its neighbour")));
  for (const Json& trial : trials_with(run, "accepted")) {
    EXPECT_GE(trial.at("process_pairs"), kFewestProcessPairs) << trial.dump(1);
    EXPECT_GT(trial.at("ratio_low"), 1.0) << trial.dump(1);
  }
  if (!run.at("best").at("configuration").contains("env.OMP_WAIT_POLICY")) return;
  EXPECT_EQ(trials.back().at("kind"), "confirmation") << trials.dump(1);
  EXPECT_EQ(trials.back().at("verdict"), "accepted") << trials.dump(1);
}

}  // namespace
}  // namespace autotuned
