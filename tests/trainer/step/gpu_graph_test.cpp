// SPDX-License-Identifier: Apache-2.0
// Steps recorded as CUDA graphs. Skipped where there is no GPU; it has never run on one.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/trainer/small_job.hpp"
#include "trainer/job/job.hpp"

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

TEST_F(GpuGraph, AShortLastBatchRunsByItself) {
  recipes::Recipe recipe = small_cnn_recipe();
  recipe.data.parameters["samples"] = 190;
  recipe.train.drop_last = false;
  expect_close(losses(recipe, true, "off", 40), losses(recipe, false, "off", 40), 1e-3);
}

}  // namespace
}  // namespace autotuned::trainer
