// SPDX-License-Identifier: Apache-2.0
// Steps recorded as CUDA graphs. Skipped where there is no GPU.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

#include <cmath>

#include "tests/trainer/small_job.hpp"
#include "trainer/job/job.hpp"
#include "trainer/step/cuda_graph.hpp"

namespace autotuned::trainer {
namespace {

class GpuGraph : public testing::Test {
 protected:
  void SetUp() override {
    static const Devices devices = open_devices();
    devices_ = devices;
    if (!devices_.cuda_reason.empty()) GTEST_SKIP() << devices_.cuda_reason;
    machine_.gpus.emplace_back();
  }

  // The losses of so many steps from the initial state.
  std::vector<double> losses(recipes::Recipe recipe, bool is_graph, const std::string& autocast,
                             std::int64_t steps) {
    recipe.device = "cuda";
    Configuration configuration = recipe.starting_configuration(recipes::knobs_of(machine_));
    configuration.set("cuda.graph", is_graph);
    configuration.set("optimizer.fused", true);
    configuration.set("precision.autocast", autocast);
    const auto job = value_of(Job::load(recipe, configuration, machine_, devices_));
    return value_of(job->run_steps(steps, never)).losses;
  }

  static void expect_close(const std::vector<double>& graph, const std::vector<double>& plain,
                           double tolerance) {
    ASSERT_EQ(graph.size(), plain.size());
    for (std::size_t i = 0; i < graph.size(); ++i)
      EXPECT_NEAR(graph[i], plain[i], tolerance * (1.0 + std::abs(plain[i]))) << "step " << i;
  }

  Devices devices_;
  Machine machine_ = test_machine();
};

TEST_F(GpuGraph, TrainsLikeStepByStep) {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    SCOPED_TRACE(optimizer);
    recipes::Recipe recipe = small_cnn_recipe();
    if (std::string_view(optimizer) != "sgd") {
      recipe.optimizer = {
          optimizer,
          {{"lr", 0.001}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.01}}};
    }
    expect_close(losses(recipe, true, "off", 40), losses(recipe, false, "off", 40), 1e-3);
  }
}

TEST_F(GpuGraph, ScalesLossesOnTheDevice) {
  expect_close(losses(small_cnn_recipe(), true, "fp16", 40),
               losses(small_cnn_recipe(), false, "fp16", 40), 3e-2);
}

TEST_F(GpuGraph, DrawsAnewInEveryReplay) {
  // Patch dropout at a learning rate of nothing: the losses of one batch differ by what is dropped alone.
  recipes::Recipe recipe = patch_dropout_recipe();
  recipe.optimizer.parameters["lr"] = 1e-12;
  recipe.data.parameters["samples"] = 20;
  recipe.data.parameters["shuffle"] = false;
  recipe.train.epochs = 20;
  const std::vector<double> all = losses(recipe, true, "off", 12);
  for (std::size_t i = 6; i < all.size(); ++i)
    EXPECT_NE(all[i], all[i - 1]) << "step " << i;
}

// LibTorch 2.11 leaves its allocators and its random numbers in the middle of a capture that failed.
TEST_F(GpuGraph, ARefusedRecordingLeavesNothingBehind) {
  const auto recorder = value_of(open_cuda_recorder(at::Device(at::kCUDA, 0)));
  ASSERT_NE(recorder, nullptr);
  const at::Tensor numbers = at::ones({1 << 20}, at::device(at::kCUDA));
  const auto dropped = [&] { return at::dropout(numbers, 0.5, true).sum(); };
  recorder->run_aside([&] { (void)dropped(); });
  at::manual_seed(3);
  const double expected = dropped().item<double>();
  for (int attempt = 0; attempt < 3; ++attempt) {
    at::manual_seed(3);
    // Its memory is kept beyond the failure, as gradients are.
    at::Tensor kept;
    EXPECT_THROW(recorder->record([&] {
      kept = numbers + 1;
      (void)dropped().item<double>();
    }),
                 c10::Error);
    // Where a capture is still under way for the allocator, this throws; drawing does where it is for the generator.
    release_device_cache("cuda:0");
    EXPECT_EQ(dropped().item<double>(), expected) << "random numbers went on during the failure";
    // What was captured was never done, but the memory is there, and nobody else's.
    kept.fill_(2.0);
    const at::Tensor other = at::zeros_like(kept);
    EXPECT_EQ(kept.sum().item<double>(), 2.0 * (1 << 20));
    EXPECT_EQ(other.sum().item<double>(), 0.0);
  }
  release_device_cache("cuda:0");
  const DeviceMemory before = device_memory("cuda:0");
  EXPECT_LT(before.reserved_bytes, 3 * before.allocated_bytes + (64 << 20)) << "memory is held";
  at::Tensor sum;
  recorder->record([&] { sum = dropped(); });
  recorder->replay();
  const double first = sum.item<double>();
  recorder->replay();
  EXPECT_NE(sum.item<double>(), first) << "each replay draws anew";
  recorder->drop();
}

// The same as a job: a model that asks the device for a number in its forward.
TEST_F(GpuGraph, AModelThatCannotBeRecordedGoesOnWithout) {
  const Folder folder;
  torch::jit::Module model("Asks");
  model.register_parameter("weight", at::empty({4, 64}).fill_(0.1).set_requires_grad(true), false);
  model.define(
      "def forward(self, x):\n"
      "    y = torch.linear(x.flatten(1), self.weight)\n"
      "    if float(y.sum()) > 1000000.0:\n"
      "        y = y * 2\n"
      "    return y\n");
  model.save((folder / "asks.pt").string());
  recipes::Recipe recipe = small_recipe();
  recipe.device = "cuda";
  recipe.model = {"torchscript", {{"file", (folder / "asks.pt").string()}}};
  const Configuration start = recipe.starting_configuration(recipes::knobs_of(machine_));
  const auto job = value_of(Job::load(recipe, start, machine_, devices_));
  ASSERT_NE(job, nullptr);
  const std::vector<double> expected = value_of(job->run_steps(10, never)).losses;
  value_of(job->prepare(with(start, "cuda.graph", true)));
  const auto refused = job->run_steps(20, never);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported) << refused.error().message();
  EXPECT_THAT(refused.error().message(), testing::HasSubstr("leave cuda.graph off"));
  EXPECT_TRUE(job->release_memory());
  value_of(job->prepare(start));
  EXPECT_TRUE(job->restore("initial"));
  expect_close(value_of(job->run_steps(10, never)).losses, expected, 1e-4);
}

// What a recorded step holds is not to be had for anything else, although LibTorch counts it as free.
TEST_F(GpuGraph, ItsMemoryIsCounted) {
  recipes::Recipe recipe = small_cnn_recipe();
  recipe.device = "cuda";
  recipe.train.batch_size = 100;
  const Configuration start = recipe.starting_configuration(recipes::knobs_of(machine_));
  const auto job = value_of(Job::load(recipe, start, machine_, devices_));
  ASSERT_NE(job, nullptr);
  const std::int64_t plain =
      value_of(job->run({.minimum_steps = 20}, never)).peak_device_memory_bytes;
  value_of(job->prepare(with(start, "cuda.graph", true)));
  value_of(job->run({.minimum_steps = 20}, never));
  const std::int64_t recorded =
      value_of(job->run({.minimum_steps = 20}, never)).peak_device_memory_bytes;
  EXPECT_GT(recorded, plain / 2);
}

TEST_F(GpuGraph, AShortLastBatchRunsByItself) {
  recipes::Recipe recipe = small_cnn_recipe();
  recipe.data.parameters["samples"] = 190;
  recipe.train.drop_last = false;
  expect_close(losses(recipe, true, "off", 40), losses(recipe, false, "off", 40), 1e-3);
}

}  // namespace
}  // namespace autotuned::trainer
