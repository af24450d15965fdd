// SPDX-License-Identifier: Apache-2.0
// Jobs of several ranks by the real trainer.
#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/trainers/trainer_client.hpp"
#include "daemon/trainers/trainer_environment.hpp"
#include "tests/child_processes.hpp"
#include "tests/places.hpp"
#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {

inline constexpr std::chrono::minutes kLimit(2);
inline constexpr std::int64_t kManyEpochs = 1'000'000;

class Flag final : public daemon::CancelSource {
 public:
  [[nodiscard]] int descriptor() const override { return -1; }
  bool is_requested() override { return is_set; }

  bool is_set = false;
};

using tests::children_of;
using tests::is_running;

// Waits as long as it takes: the test as a whole has a limit.
inline void wait_for(const std::function<bool()>& is_so) {
  while (!is_so())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

inline std::string parameters_of(const Json& answer) {
  return get_string(answer, "parameters_sha256").value_or("");
}

class SeveralRanks : public testing::Test {
 protected:
  SeveralRanks() : folder_(std::filesystem::temp_directory_path() / unique_name()) {
    std::filesystem::create_directory(folder_);
  }
  ~SeveralRanks() override { std::filesystem::remove_all(folder_); }

  static recipes::Recipe recipe(int ranks) {
    recipes::Recipe recipe = small_recipe();
    recipe.train.ranks = ranks;
    return recipe;
  }

  // Which has loaded the recipe.
  daemon::TrainerClient start(const recipes::Recipe& recipe) { return start(recipe, cancel_); }
  daemon::TrainerClient start(const recipes::Recipe& recipe, daemon::CancelSource& cancel) {
    daemon::TrainerSpec spec;
    spec.program = tests::build_folder() / "bin/autotuned-trainer";
    spec.environment = daemon::trainer_environment();
    spec.log = folder_ / ("trainer-" + std::to_string(started_++) + ".log");
    auto client = daemon::TrainerClient::start(spec, cancel);
    EXPECT_TRUE(client) << client.error().message();
    const auto loaded = client->request(
        "load", {{"recipe", recipe.to_json()}, {"configuration", starting(recipe).to_json()}},
        kLimit);
    EXPECT_TRUE(loaded) << loaded.error().message();
    facts_ = loaded.value_or(Json());
    return std::move(*client);
  }

  Result<Json> train(daemon::TrainerClient& client, const recipes::Recipe& recipe,
                     bool resume = false,
                     const std::function<void(const Json&)>& on_progress = {}) {
    return client.request("train",
                          {{"configuration", starting(recipe).to_json()},
                           {"checkpoint_path", (folder_ / "checkpoint.pt").string()},
                           {"resume", resume},
                           {"progress_every_ns", 1}},
                          kLimit, on_progress);
  }
  Json trained(const recipes::Recipe& recipe) {
    daemon::TrainerClient client = start(recipe);
    return value_of(train(client, recipe));
  }

  Flag cancel_;
  std::filesystem::path folder_;
  Json facts_;  // of the last one that was started

 private:
  int started_ = 0;

  static std::string unique_name() {
    return "autotuned-ranks-" + std::to_string(::getpid()) + "-" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
  }
};

}  // namespace autotuned::trainer
