// SPDX-License-Identifier: Apache-2.0
// Trainers on a GPU as a session drives them: one after the other, and two at once. Skipped where there is no GPU.
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <utility>

#include "daemon/common/used_device.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tuner/checks.hpp"

namespace autotuned::daemon {
namespace {

class GpuTrainer : public testing::Test {
 protected:
  void SetUp() override {
    machine_ = detect_machine();
    TrainerBackendSpec spec;
    spec.knobs = recipes::knobs_of(machine_);
    spec.recipe = *recipes::parse_recipe(
        "autotuned: 1\n"
        "name: small\n"
        "device: auto\n"
        "model: {type: fashion_cnn, classes: 10}\n"
        "data: {type: synthetic, samples: 2048, shape: [1, 28, 28], classes: 10}\n"
        "input: [to_float]\n"
        "optimizer: {type: sgd, lr: 0.01, momentum: 0.9}\n"
        "train: {epochs: 1, batch_size: 128}\n",
        "recipe.yaml", spec.knobs);
    recipe_ = spec.recipe;
    spec.trainer = tests::build_folder() / "bin/autotuned-trainer";
    spec.folder = folder_.path();
    spec.measurement_lock = folder_ / "measurement.lock";
    start_ = recipe_.starting_configuration(spec.knobs);
    job_.emplace(std::move(spec), cancel_);
    const auto started = job_->start(start_);
    ASSERT_TRUE(started) << started.error().message();
    if (device() == "cpu") {
      GTEST_SKIP() << get_string(job_->hello(), "cuda_reason").value_or("no reason was told");
    }
  }

  [[nodiscard]] std::string device() const {
    return get_string(job_->facts(), "device").value_or("");
  }
  [[nodiscard]] Configuration with(const std::string& knob, KnobValue value) const {
    Configuration configuration = start_;
    configuration.set(knob, std::move(value));
    return configuration;
  }

  TemporaryFolder folder_;
  NeverCancelled cancel_;
  Machine machine_;
  recipes::Recipe recipe_;
  Configuration start_;
  std::optional<TrainerBackend> job_;
};

// The list of NVML and the numbers of CUDA agree on which GPU is used.
TEST_F(GpuTrainer, IsOnTheGpuThatWasExpected) {
  const std::string told = device_told(job_->facts(), machine_, "cpu");
  EXPECT_EQ(told, device_of(recipe_, machine_));
  EXPECT_THAT(get_string(job_->facts(), "device_uuid").value_or(""), testing::SizeIs(36));
}

// cuDNN keeps its plans as long as the process lives: another value is another process.
TEST_F(GpuTrainer, CudnnBenchmarkIsChosenInAFreshProcess) {
  const Configuration benchmark = with("cudnn.benchmark", true);
  EXPECT_FALSE(job_->share_process(start_, benchmark));
  const auto plain = job_->run_block(start_, {});
  ASSERT_TRUE(plain) << plain.error().message();
  const auto timed = job_->run_block(benchmark, {});
  ASSERT_TRUE(timed) << timed.error().message();
  const auto updates = job_->compare_updates(start_, benchmark, 8, tuner::CheckedSteps::first);
  ASSERT_TRUE(updates) << updates.error().message();
  const CheckRecord check = tuner::check_numerics(*updates);
  EXPECT_TRUE(check.passed) << check.detail;
}

TEST_F(GpuTrainer, SharesTheGpuWithASecondOne) {
  const Configuration keep = with("memory.malloc", std::string("keep"));
  for (int i = 0; i < 3; ++i) {
    for (const Configuration& one : {start_, keep}) {
      const auto block = job_->run_block(one, {});
      ASSERT_TRUE(block) << block.error().message();
      EXPECT_GT(block->peak_device_memory_bytes, 0);
    }
  }
}

}  // namespace
}  // namespace autotuned::daemon
