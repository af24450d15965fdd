// SPDX-License-Identifier: Apache-2.0
// The numerics check on real training: what it must reject, and what it must let pass.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <memory>

#include "tests/trainer/small_job.hpp"
#include "tests/trainer/updates.hpp"
#include "trainer/models/loss.hpp"
#include "trainer/models/model.hpp"
#include "trainer/state/checkpoint.hpp"
#include "trainer/step/optimizer.hpp"
#include "tuner/checks.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kCheckSteps = 8;  // those of the check

// With a batch normalisation, for images of 2 x 12 x 12.
class Normalized final : public Model {
 public:
  Normalized()
      : Model(4),
        conv_(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 8, 3)))),
        norm_(register_module("norm", torch::nn::BatchNorm2d(8))),
        output_(register_module("output", torch::nn::Linear(8 * 10 * 10, 4))) {}

  at::Tensor forward(const at::Tensor& images) override {
    return output_(at::relu(norm_(conv_(images))).flatten(1));
  }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
  torch::nn::Linear output_;
};

// A bare training loop that a test can spoil.
class Loop {
 public:
  // Called after backward, before the optimizer's step.
  std::function<void(const std::vector<at::Tensor>&)> spoil = [](const auto&) {};
  bool forgets_momentum = false;
  // In the place of the recipe's model; empty: that one.
  std::function<std::shared_ptr<Model>()> make;
  // Before the first step.
  std::function<void(torch::nn::Module&)> change = [](torch::nn::Module&) {};

  explicit Loop(const recipes::Recipe& recipe) : recipe_(recipe) {}

  struct Result {
    Checkpoint initial;
    Checkpoint final;
    std::vector<double> losses;
  };
  [[nodiscard]] Result run() const {
    at::manual_seed(recipe_.seed);
    const auto shape = recipe_.data.parameters["shape"].get<std::vector<std::int64_t>>();
    const auto model = make ? make()
                            : value_of(make_model(recipe_.model, {static_cast<int>(shape[0]),
                                                                  static_cast<int>(shape[1]),
                                                                  static_cast<int>(shape[2])}));
    std::vector<at::Tensor> parameters;
    for (const auto& parameter : model->named_parameters())
      parameters.push_back(parameter.value());
    auto optimizer = value_of(make_optimizer(recipe_.optimizer, parameters));
    change(*model);
    Result result;
    result.initial = state_of(*model);
    at::manual_seed(recipe_.seed + 1);
    // As images are: not all directions alike.
    const at::Tensor patterns = at::rand({4, shape[0], shape[1], shape[2]});
    for (std::int64_t step = 0; step < kCheckSteps; ++step) {
      const at::Tensor labels = at::randint(4, {20}, at::kLong);
      const at::Tensor images =
          patterns.index_select(0, labels) + 0.3 * at::randn({20, shape[0], shape[1], shape[2]});
      for (at::Tensor& parameter : parameters)
        parameter.mutable_grad().reset();
      const at::Tensor loss = loss_of(Loss::cross_entropy, model->forward(images), labels);
      loss.backward();
      result.losses.push_back(loss.item<double>());
      spoil(parameters);
      if (forgets_momentum) optimizer = value_of(make_optimizer(recipe_.optimizer, parameters));
      optimizer->step(recipe_.optimizer.parameters["lr"].get<double>());
    }
    result.final = state_of(*model);
    return result;
  }

 private:
  static Checkpoint state_of(const Model& model) {
    Checkpoint checkpoint;
    for (const auto& parameter : model.named_parameters()) {
      checkpoint.parameters.emplace_back(parameter.key(), parameter.value().detach().clone());
    }
    for (const auto& buffer : model.named_buffers()) {
      checkpoint.buffers.emplace_back(buffer.key(), buffer.value().detach().clone());
    }
    return checkpoint;
  }

  recipes::Recipe recipe_;
};

CheckRecord check_of(const Loop& reference, const Loop& candidate) {
  const Loop::Result a = reference.run();
  const Loop::Result b = candidate.run();
  const Comparison comparison = value_of(compare(a.initial, a.final, b.final));
  return tuner::check_numerics(updates_of(comparison, a.losses, b.losses));
}

// With attention and layer normalisation.
recipes::Recipe checked_vit_recipe() {
  recipes::Recipe recipe = patch_dropout_recipe();
  recipe.model.parameters["depth"] = 1;
  recipe.model.parameters["patch_dropout"] = 0.0;
  return recipe;
}

class NumericsCheck : public testing::TestWithParam<recipes::Recipe> {};
INSTANTIATE_TEST_SUITE_P(Models, NumericsCheck,
                         testing::Values(small_cnn_recipe(), checked_vit_recipe()),
                         [](const auto& test) { return test.param.model.type; });

TEST_P(NumericsCheck, AcceptsTheSameTraining) {
  EXPECT_TRUE(check_of(Loop(GetParam()), Loop(GetParam())).passed);
}

TEST_P(NumericsCheck, RejectsFrozenLayers) {
  Loop spoiled(GetParam());
  // A layer in the middle, alone.
  spoiled.spoil = [](const auto& parameters) {
    parameters[parameters.size() / 2].mutable_grad().reset();
  };
  const CheckRecord check = check_of(Loop(GetParam()), spoiled);
  EXPECT_FALSE(check.passed) << check.detail;
}

TEST_P(NumericsCheck, RejectsHalvedGradients) {
  Loop spoiled(GetParam());
  spoiled.spoil = [](const auto& parameters) {
    for (const at::Tensor& parameter : parameters)
      parameter.mutable_grad().mul_(0.5);
  };
  const CheckRecord check = check_of(Loop(GetParam()), spoiled);
  EXPECT_FALSE(check.passed) << check.detail;
  EXPECT_THAT(check.detail, HasSubstr("as long as the reference's"));
}

TEST_P(NumericsCheck, RejectsHalfOfTheGradientsZeroed) {
  Loop spoiled(GetParam());
  spoiled.spoil = [](const auto& parameters) {
    for (const at::Tensor& parameter : parameters) {
      at::Tensor flat = parameter.mutable_grad().view(-1);
      flat.slice(0, 0, flat.numel() / 2).zero_();
    }
  };
  EXPECT_FALSE(check_of(Loop(GetParam()), spoiled).passed);
}

TEST_P(NumericsCheck, RejectsLostMomentum) {
  Loop spoiled(GetParam());
  spoiled.forgets_momentum = true;
  const CheckRecord check = check_of(Loop(GetParam()), spoiled);
  EXPECT_FALSE(check.passed) << check.detail;
}

// The parameters learn as ever, and every evaluation is wrong.
TEST(NumericsCheckOfStatistics, RejectsABatchNormalisationThatKeepsNone) {
  const recipes::Recipe recipe = small_cnn_recipe();
  Loop plain(recipe);
  plain.make = [] { return std::make_shared<Normalized>(); };
  Loop frozen = plain;
  frozen.change = [](torch::nn::Module& model) {
    for (const auto& module : model.modules()) {
      if (auto* norm = module->as<torch::nn::BatchNorm2dImpl>()) norm->options.momentum(0.0);
    }
  };
  EXPECT_TRUE(check_of(plain, plain).passed);
  const CheckRecord check = check_of(plain, frozen);
  EXPECT_FALSE(check.passed);
  EXPECT_THAT(check.detail, HasSubstr("norm.running_mean"));
}

TEST_P(NumericsCheck, AcceptsCorrectChanges) {
  const recipes::Recipe& recipe = GetParam();
  const auto job = load(recipe);
  const Configuration start = starting(recipe);
  const auto losses_under = [&](const Configuration& configuration, const char* name) {
    value_of(job->prepare(configuration));
    EXPECT_TRUE(job->restore("initial"));
    std::vector<double> losses = value_of(job->run_steps(kCheckSteps, never)).losses;
    value_of(job->keep(name));
    return losses;
  };
  const std::vector<double> reference = losses_under(start, "reference");
  std::vector<Configuration> candidates = {
      with(start, "precision.autocast", "bf16"), with(start, "precision.autocast", "fp16"),
      with(start, "layout.memory_format", "channels_last"), with(start, "optimizer.fused", true),
      with(start, "threads.intra_op", std::int64_t{1})};
  candidates.push_back(
      with(with(candidates[0], "layout.memory_format", "channels_last"), "optimizer.fused", true));
  for (const Configuration& candidate : candidates) {
    SCOPED_TRACE(start.change_to(candidate).canonical_text());
    const std::vector<double> losses = losses_under(candidate, "candidate");
    const Comparison comparison = value_of(job->compare("initial", "reference", "candidate"));
    const CheckRecord check = tuner::check_numerics(updates_of(comparison, reference, losses));
    EXPECT_TRUE(check.passed) << check.detail;
  }
}

}  // namespace
}  // namespace autotuned::trainer
