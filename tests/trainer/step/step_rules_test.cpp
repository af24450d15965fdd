// SPDX-License-Identifier: Apache-2.0
// Accumulation, clipping, parameter groups and averages of a step, against PyTorch's arithmetic written out.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/small_job.hpp"
#include "trainer/models/model.hpp"
#include "trainer/state/checkpoint.hpp"
#include "trainer/step/gradient_limits.hpp"
#include "trainer/step/learner.hpp"
#include "trainer/step/weight_average.hpp"

namespace autotuned::trainer {
namespace {

std::unique_ptr<Learner> learner(const recipes::Recipe& recipe) {
  return value_of(Learner::create(recipe, {.channels = 1, .height = 8, .width = 8}, at::kCPU));
}

DeviceBatch batch(std::int64_t samples, int seed) {
  at::manual_seed(static_cast<std::uint64_t>(1000 + seed));
  DeviceBatch one;
  one.images = at::randn({samples, 1, 8, 8});
  one.labels = at::randint(4, {samples}, at::kLong);
  one.samples = samples;
  return one;
}

at::Tensor find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [one, tensor] : tensors)
    if (one == name) return tensor;
  ADD_FAILURE() << name;
  return at::zeros({1});
}

void expect_close(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(at::allclose(a[i].second, b[i].second, 1e-5, 1e-6)) << a[i].first;
  }
}

// --- clipping -------------------------------------------------------------------------------------

std::vector<at::Tensor> some_gradients() {
  at::manual_seed(5);
  return {at::randn({4, 3}), at::randn({7}), at::randn({2, 3, 3, 3})};
}

double norm_of(const std::vector<at::Tensor>& gradients) {
  double squares = 0.0;
  for (const at::Tensor& gradient : gradients)
    squares += gradient.to(at::kDouble).pow(2).sum().item<double>();
  return std::sqrt(squares);
}

// clip_grad_norm_: every gradient times min(1, max_norm / (norm + 1e-6)).
TEST(GradientLimits, ScaleAllByOneFactor) {
  const std::vector<at::Tensor> before = some_gradients();
  const double norm = norm_of(before);
  for (const double limit : {0.5, 2.0 * norm}) {
    const std::vector<at::Tensor> clipped = some_gradients();
    limit_gradients(clipped, limit, {});
    const double factor = std::min(1.0, limit / (norm + 1e-6));
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(at::allclose(clipped[i], before[i] * factor, 1e-6, 1e-8)) << limit;
    EXPECT_NEAR(norm_of(clipped), std::min(limit, norm), 1e-5);
  }
}

TEST(GradientLimits, CutElementsOff) {
  const std::vector<at::Tensor> before = some_gradients();
  const std::vector<at::Tensor> clipped = some_gradients();
  limit_gradients(clipped, {}, 0.25);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(clipped[i], before[i].clamp(-0.25, 0.25)));
}

TEST(GradientLimits, LeaveWhatHasNoLimit) {
  const std::vector<at::Tensor> clipped = some_gradients();
  limit_gradients(clipped, {}, {});
  EXPECT_TRUE(at::equal(clipped[0], some_gradients()[0]));
}

// SGD without momentum moves each parameter by the rate times its gradient: what is clipped is seen.
TEST(StepRules, ClipTheGradientsOfAStep) {
  recipes::Recipe recipe = small_recipe();
  recipe.optimizer.parameters["momentum"] = 0.0;
  const auto move = [&](const recipes::Recipe& one) {
    const auto trained = learner(one);
    const Checkpoint before = trained->capture();
    (void)trained->step(batch(20, 0), 1.0);
    std::vector<at::Tensor> moves;
    const Checkpoint after = trained->capture();
    for (std::size_t i = 0; i < after.parameters.size(); ++i)
      moves.push_back(before.parameters[i].second - after.parameters[i].second);
    return moves;
  };
  const std::vector<at::Tensor> plain = move(recipe);
  const double limit = norm_of(plain) / 3.0;
  recipe.step_rules.clip_norm = limit;
  const std::vector<at::Tensor> clipped = move(recipe);
  EXPECT_NEAR(norm_of(clipped), limit, 1e-5 * limit + 1e-6);
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(at::allclose(clipped[i], plain[i] / 3.0, 1e-3, 1e-6)) << i;
}

// --- accumulation ---------------------------------------------------------------------------------

// Without layers that mix samples, parts of a batch give the gradient of the whole batch.
TEST(StepRules, PartsOfABatchGiveItsGradient) {
  for (const std::int64_t samples : {20, 17}) {
    SCOPED_TRACE(samples);
    const auto whole = learner(small_recipe());
    recipes::Recipe recipe = small_recipe();
    recipe.step_rules.accumulate = 4;
    const auto parts = learner(recipe);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor expected = whole->step(batch(samples, i), 0.1);
      const at::Tensor loss = parts->step(batch(samples, i), 0.1);
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
    }
    expect_close(parts->capture().parameters, whole->capture().parameters);
    expect_close(parts->capture().optimizer, whole->capture().optimizer);
  }
}

TEST(StepRules, TheModelIsGivenOnePartAfterTheOther) {
  recipes::Recipe recipe = small_recipe();
  recipe.step_rules.accumulate = 3;
  const auto parts = learner(recipe);
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> images;
  parts->watch_inputs({.labels = [&](const at::Tensor& one) { labels.push_back(one.size(0)); },
                       .images = [&](const at::Tensor& one) { images.push_back(one.size(0)); }});
  (void)parts->step(batch(20, 0), 0.1);
  EXPECT_THAT(labels, testing::ElementsAre(20));
  EXPECT_THAT(images, testing::ElementsAre(7, 7, 6));
}

// --- averages -------------------------------------------------------------------------------------

// AveragedModel with get_ema_multi_avg_fn: the first update copies, then ema = ema * decay + parameter * (1 - decay).
TEST(StepRules, AverageTheParameters) {
  recipes::Recipe recipe = small_recipe();
  recipe.step_rules.ema_decay = 0.75;
  const auto trained = learner(recipe);
  EXPECT_TRUE(trained->capture().averages.empty());
  at::Tensor expected;
  for (int i = 0; i < 4; ++i) {
    (void)trained->step(batch(20, i), 0.1);
    const at::Tensor weight = find(trained->capture().parameters, "hidden.weight");
    expected = i == 0 ? weight.clone() : expected * 0.75 + weight * 0.25;
  }
  const Checkpoint end = trained->capture();
  EXPECT_EQ(end.averages.size(), end.parameters.size());
  EXPECT_TRUE(at::allclose(find(end.averages, "hidden.weight"), expected, 1e-5, 1e-7));
  EXPECT_FALSE(
      at::equal(find(end.averages, "hidden.weight"), find(end.parameters, "hidden.weight")));
}

TEST(StepRules, AnAverageChangesNothingOfTheTraining) {
  recipes::Recipe recipe = small_recipe();
  const auto plain = learner(recipe);
  recipe.step_rules.ema_decay = 0.9;
  const auto averaged = learner(recipe);
  for (int i = 0; i < 3; ++i) {
    (void)plain->step(batch(20, i), 0.1);
    (void)averaged->step(batch(20, i), 0.1);
    (void)averaged->score(batch(20, 9));
  }
  const Checkpoint one = plain->capture();
  const Checkpoint two = averaged->capture();
  for (std::size_t i = 0; i < one.parameters.size(); ++i)
    EXPECT_TRUE(at::equal(one.parameters[i].second, two.parameters[i].second));
  // But it counts in what identifies the state.
  EXPECT_NE(digest_of(one), digest_of(two));
}

TEST(StepRules, TheAverageIsWhatIsEvaluated) {
  recipes::Recipe recipe = small_recipe();
  recipe.step_rules.ema_decay = 0.9;
  const auto averaged = learner(recipe);
  for (int i = 0; i < 5; ++i)
    (void)averaged->step(batch(20, i), 0.5);
  const double score = averaged->score(batch(20, 9)).loss_sum.item<double>();
  Checkpoint checkpoint = averaged->capture();
  checkpoint.parameters = checkpoint.averages;
  checkpoint.averages.clear();
  const auto other = learner(small_recipe());
  checkpoint.optimizer.clear();
  ASSERT_TRUE(other->restore(checkpoint));
  EXPECT_DOUBLE_EQ(other->score(batch(20, 9)).loss_sum.item<double>(), score);
}

// Code of an extension may run in an evaluation.
TEST(StepRules, AnAverageIsOutOfReachOfAForwardOfOthers) {
  recipes::Recipe recipe = small_recipe();
  recipe.step_rules.ema_decay = 0.9;
  const auto averaged = learner(recipe);
  for (int i = 0; i < 3; ++i)
    (void)averaged->step(batch(20, i), 0.5);
  const at::Tensor before = find(averaged->capture().averages, "hidden.weight").clone();
  const at::Tensor own = find(averaged->capture().parameters, "hidden.weight").clone();
  const double score = averaged->score(batch(20, 9)).loss_sum.item<double>();
  averaged->set_forward([&averaged](const at::Tensor& images) {
    at::Tensor logits = averaged->model().forward(images);
    for (const at::Tensor& parameter : averaged->model().parameters())
      parameter.zero_();
    return logits;
  });
  EXPECT_EQ(averaged->score(batch(20, 9)).loss_sum.item<double>(), score);
  EXPECT_TRUE(at::equal(find(averaged->capture().averages, "hidden.weight"), before));
  EXPECT_TRUE(at::equal(find(averaged->capture().parameters, "hidden.weight"), own));
}

TEST(StepRules, AnEvaluationCopiesTheAveragesOnce) {
  recipes::Recipe recipe = small_recipe();
  recipe.step_rules.ema_decay = 0.9;
  const auto averaged = learner(recipe);
  (void)averaged->step(batch(20, 0), 0.5);
  (void)averaged->step(batch(20, 1), 0.5);
  const at::Tensor own = averaged->model().parameters()[0].detach();
  const double score = averaged->score(batch(20, 9)).loss_sum.item<double>();
  std::vector<at::Tensor> seen;  // kept, so that no other copy lies at the same place
  averaged->set_forward([&](const at::Tensor& images) {
    seen.push_back(averaged->model().parameters()[0].detach());
    return averaged->model().forward(images);
  });
  {
    const Learner::Evaluation evaluation(*averaged);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(averaged->score(batch(20, 9)).loss_sum.item<double>(), score);
  }
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].const_data_ptr(), seen[1].const_data_ptr());
  EXPECT_NE(seen[0].const_data_ptr(), own.const_data_ptr());
  EXPECT_EQ(averaged->model().parameters()[0].const_data_ptr(), own.const_data_ptr());
  // The next evaluation is of other averages.
  (void)averaged->step(batch(20, 2), 0.5);
  {
    const Learner::Evaluation evaluation(*averaged);
    EXPECT_NE(averaged->score(batch(20, 9)).loss_sum.item<double>(), score);
  }
  EXPECT_NE(seen.back().const_data_ptr(), seen[0].const_data_ptr());
}

// In channels_last and back, and from a checkpoint: bit for bit the same.
TEST(StepRules, TheStateComesBackBitForBit) {
  recipes::Recipe recipe = small_cnn_recipe();
  recipe.step_rules = {.accumulate = 2, .clip_norm = 0.3, .ema_decay = 0.8};
  recipe.optimizer = {"nadam",
                      {{"lr", 0.01},
                       {"betas", {0.9, 0.99}},
                       {"eps", 1e-8},
                       {"momentum_decay", 0.004},
                       {"weight_decay", 0.1},
                       {"decay_norms_and_biases", false}}};
  const auto make = [&] {
    return value_of(Learner::create(recipe, {.channels = 2, .height = 12, .width = 12}, at::kCPU));
  };
  const auto step = [](Learner& one, int i) {
    DeviceBatch some = batch(20, i);
    some.images = at::randn({20, 2, 12, 12});
    (void)one.step(some, 0.01);
  };
  const auto straight = make();
  Checkpoint middle;
  for (int i = 0; i < 6; ++i) {
    if (i == 3) middle = straight->capture();
    step(*straight, i);
  }
  const auto resumed = make();
  resumed->configure({.is_channels_last = true});
  step(*resumed, 7);
  resumed->configure({});
  ASSERT_TRUE(resumed->restore(middle));
  for (int i = 3; i < 6; ++i)
    step(*resumed, i);
  EXPECT_EQ(digest_of(resumed->capture()), digest_of(straight->capture()));
}

// --- parameter groups -----------------------------------------------------------------------------

// AdamW takes lr * decay of a parameter besides the gradient's part, which is the same here.
TEST(StepRules, BiasesDoNotDecayWhereTheRecipeSaysSo) {
  recipes::Recipe recipe = small_recipe();
  recipe.optimizer = {"adamw",
                      {{"lr", 0.1}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}}};
  const auto after_step = [](const recipes::Recipe& one) {
    const auto trained = learner(one);
    (void)trained->step(batch(20, 0), 0.1);
    return trained->capture();
  };
  const Checkpoint initial = learner(recipe)->capture();
  const Checkpoint without = after_step(recipe);
  recipe.optimizer.parameters["weight_decay"] = 0.5;
  const Checkpoint all = after_step(recipe);
  recipe.optimizer.parameters["decay_norms_and_biases"] = false;
  const Checkpoint weights = after_step(recipe);
  for (const char* name : {"hidden.weight", "hidden.bias", "output.weight", "output.bias"}) {
    SCOPED_TRACE(name);
    const at::Tensor decayed =
        find(without.parameters, name) - find(initial.parameters, name) * (0.1 * 0.5);
    EXPECT_TRUE(at::allclose(find(all.parameters, name), decayed, 1e-5, 1e-6));
    const bool is_weight = std::string(name).ends_with("weight");
    EXPECT_TRUE(at::allclose(find(weights.parameters, name),
                             is_weight ? decayed : find(without.parameters, name), 1e-5, 1e-6));
  }
  // A checkpoint has each state once, under the name of its parameter.
  EXPECT_EQ(weights.optimizer.size(), all.optimizer.size());
  EXPECT_TRUE(at::allclose(find(weights.optimizer, "mean/hidden.bias"),
                           find(all.optimizer, "mean/hidden.bias")));
}

// --- losses ---------------------------------------------------------------------------------------

TEST(StepRules, SmoothingAndWeightsServeTheTrainingAlone) {
  recipes::Recipe recipe = small_recipe();
  const auto plain = learner(recipe);
  recipe.loss_parameters = {{"label_smoothing", 0.2}, {"class_weights", {1, 2, 3, 4}}};
  const auto other = learner(recipe);
  EXPECT_DOUBLE_EQ(other->score(batch(20, 0)).loss_sum.item<double>(),
                   plain->score(batch(20, 0)).loss_sum.item<double>());
  EXPECT_NE(other->step(batch(20, 0), 0.1).item<double>(),
            plain->step(batch(20, 0), 0.1).item<double>());
}

TEST(StepRules, ThereIsAWeightForEachClass) {
  recipes::Recipe recipe = small_recipe();
  recipe.loss_parameters = {{"class_weights", {1, 2, 3}}};
  const auto made = Learner::create(recipe, {.channels = 1, .height = 8, .width = 8}, at::kCPU);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
  EXPECT_THAT(made.error().what,
              testing::HasSubstr("class_weights has 3 weights, the model 4 classes"));
}

TEST(CheckpointComparison, ComparesAveragesThatHaveMoved) {
  const auto state_of = [](double parameter, double average) {
    Checkpoint checkpoint;
    checkpoint.parameters = {{"weight", at::full({4}, parameter)}};
    checkpoint.averages = {{"weight", at::full({4}, average)}};
    return checkpoint;
  };
  Checkpoint base = state_of(0.0, 0.1);
  const Checkpoint reference = state_of(1.0, 0.2);
  const Comparison still = value_of(compare(base, reference, state_of(1.0, 0.1)));
  EXPECT_FALSE(still.is_equal);
  ASSERT_EQ(still.buffers.size(), 1U);
  EXPECT_EQ(still.buffers[0].update.name, "running average of weight");
  EXPECT_EQ(still.buffers[0].update.norm_ratio, 0.0);
  EXPECT_TRUE(still.buffers[0].is_floating);
  EXPECT_FALSE(still.buffers[0].is_equal);

  const Comparison same = value_of(compare(base, reference, reference));
  EXPECT_TRUE(same.is_equal && same.is_finite);
  EXPECT_TRUE(same.buffers.at(0).is_equal);
  const Checkpoint bad = state_of(1.0, std::nan(""));
  EXPECT_FALSE(value_of(compare(base, reference, bad)).is_finite);

  // The first step makes them, so that there is no update to compare.
  base.averages.clear();
  EXPECT_TRUE(value_of(compare(base, reference, state_of(1.0, 0.1))).buffers.empty());
  EXPECT_FALSE(value_of(compare(base, reference, bad)).is_finite);
}

}  // namespace
}  // namespace autotuned::trainer
