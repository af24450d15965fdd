// SPDX-License-Identifier: Apache-2.0
// Steps and answers that a model computes once more by itself.
#include "trainer/extensions/own_pass.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <limits>
#include <memory>
#include <string>

#include "tests/trainer/extensions/compared_steps.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/models/model.hpp"
#include "trainer/state/checkpoint.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

// Running averages, random numbers, gradients of parts: all of it bit for bit.
TEST(OwnPass, FindsNothingInTheModelsOwnForward) {
  for (recipes::Recipe recipe : {small_recipe(), patch_dropout_recipe(), resnet_recipe()}) {
    for (const int parts : {1, 2}) {
      SCOPED_TRACE(recipe.model.type + std::to_string(parts));
      recipe.step_rules.accumulate = parts;
      const auto learner = learner_of(recipe);
      ASSERT_NE(learner, nullptr);
      Compared compared(*learner);
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(compared.step(batch_for(recipe)), "");
    }
  }
}

TEST(OwnPass, FindsNothingUnderOtherArithmetic) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  Compared compared(*learner);
  for (const bool is_dropped : {false, true}) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      learner->configure({.autocast = type, .set_to_none = is_dropped});
      EXPECT_EQ(compared.step(batch_for(small_recipe())), "");
    }
  }
}

// The training goes on as if there had been no second computation.
TEST(OwnPass, LeavesNoTrace) {
  for (const recipes::Recipe& recipe : {patch_dropout_recipe(), resnet_recipe()}) {
    const auto trained = [&recipe](bool is_compared) {
      const auto learner = learner_of(recipe);  // seeds the generators
      const DeviceBatch batch = batch_for(recipe);
      Compared compared(*learner);
      for (int i = 0; i < 3; ++i) {
        if (is_compared) {
          EXPECT_EQ(compared.step(batch), "");
        } else {
          (void)learner->step(batch, 0.05);
        }
      }
      return learner->capture();
    };
    const Checkpoint expected = trained(false);
    const Checkpoint found = trained(true);
    for (const auto list : {&Checkpoint::parameters, &Checkpoint::buffers, &Checkpoint::others}) {
      ASSERT_EQ((found.*list).size(), (expected.*list).size());
      for (std::size_t i = 0; i < (found.*list).size(); ++i)
        EXPECT_TRUE(at::equal((found.*list)[i].second, (expected.*list)[i].second))
            << (found.*list)[i].first;
    }
  }
}

TEST(OwnPass, FindsOtherGradients) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  Model& model = learner->model();
  Compared compared(*learner);
  const DeviceBatch batch = batch_for(small_recipe());
  const Learner::Forward scaled = [&model](const at::Tensor& images) {
    const at::Tensor logits = model.forward(images);
    return logits * 0.5 + logits.detach() * 0.5;
  };
  const Learner::Forward of_others = [&model](const at::Tensor& images) {
    return model.forward(images.flip({0}));
  };
  const Learner::Forward of_half = [&model](const at::Tensor& images) {
    at::Tensor shown = images.clone();
    shown.narrow(0, 4, 4).zero_();
    return model.forward(shown);
  };
  for (const Closeness asked : {Closeness::equal, Closeness::near}) {
    EXPECT_THAT(
        compared.step(batch, scaled, asked),
        HasSubstr(std::string(kOtherGradients) + " (norm 0.5 times as long, cosine 1.000)"));
    EXPECT_THAT(compared.step(batch, of_others, asked), HasSubstr(kOtherGradients));
    EXPECT_THAT(compared.step(batch, of_half, asked), HasSubstr(kOtherGradients));
    EXPECT_EQ(compared.step(batch), "");
  }
}

// As code in 16 bits makes it.
TEST(OwnPass, MayFindRounding) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  Compared compared(*learner);
  const DeviceBatch batch = batch_for(small_recipe());
  const Learner::Forward rounded = [&learner](const at::Tensor& images) {
    const at::Tensor logits = learner->model().forward(images.to(at::kBFloat16).to(at::kFloat));
    return logits.to(at::kBFloat16).to(at::kFloat);
  };
  EXPECT_EQ(compared.step(batch, rounded, Closeness::near), "");
  EXPECT_THAT(compared.step(batch, rounded, Closeness::equal), HasSubstr(kOtherGradients));
}

// Nor do single parameters differ more than they may, with and without convolutions.
TEST(OwnPass, MayFindThatTheForwardIsIn16Bits) {
  for (const recipes::Recipe& recipe : {small_recipe(), small_cnn_recipe()}) {
    SCOPED_TRACE(recipe.model.type);
    const bool is_cnn = recipe.model.type == "fashion_cnn";
    const input::SampleShape shape =
        is_cnn ? input::SampleShape{2, 12, 12} : input::SampleShape{1, 8, 8};
    const auto learner = value_of(Learner::create(recipe, shape, at::kCPU));
    ASSERT_NE(learner, nullptr);
    DeviceBatch batch = batch_for(small_recipe());
    if (is_cnn) batch.images = at::randn({8, 2, 12, 12});
    const Learner::Forward in_16_bits = [&learner](const at::Tensor& images) {
      at::autocast::set_autocast_enabled(at::kCPU, true);
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
      at::Tensor logits = learner->model().forward(images);
      at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCPU, false);
      return logits.to(at::kFloat);
    };
    EXPECT_EQ(Compared(*learner).step(batch, in_16_bits, Closeness::near), "");
  }
}

// It is a small part of all gradients, and an optimizer such as Adam makes steps of full size of it.
TEST(OwnPass, FindsThatASmallParameterGetsNoGradient) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  Compared compared(*learner);
  DeviceBatch batch = batch_for(small_recipe());
  batch.images = batch.images * 4.0;
  at::Tensor bias;
  for (const auto& parameter : learner->model().named_parameters())
    if (parameter.key() == "hidden.bias") bias = parameter.value();
  ASSERT_TRUE(bias.defined());
  const unsigned hook =
      bias.register_hook([](const at::Tensor& gradient) { return gradient * 0.0; });
  EXPECT_EQ(compared.step(batch, nullptr, Closeness::near),
            std::string(kOtherGradients) +
                " (of parameter hidden.bias: norm 0 times as long, cosine 0.000)");
  bias.remove_hook(hook);
  EXPECT_EQ(compared.step(batch, nullptr, Closeness::near), "");
}

TEST(OwnPass, FindsOtherBuffers) {
  const auto learner = learner_of(resnet_recipe());
  ASSERT_NE(learner, nullptr);
  Compared compared(*learner);
  const DeviceBatch batch = batch_for(resnet_recipe());
  const Learner::Forward moves = [&learner](const at::Tensor& images) {
    {
      const at::NoGradGuard no_grad;
      for (const auto& buffer : learner->model().named_buffers())
        if (buffer.key() == "bn1.running_mean") buffer.value().add_(1.0);
    }
    return learner->model().forward(images);
  };
  for (const Closeness asked : {Closeness::equal, Closeness::near}) {
    EXPECT_EQ(compared.step(batch, moves, asked),
              "leaves other numbers in buffer bn1.running_mean than the model's own forward");
  }
}

// All that a step adds to a running average that has reached its value.
TEST(OwnPass, MayFindThatABufferIsRounded) {
  const auto learner = learner_of(resnet_recipe());
  ASSERT_NE(learner, nullptr);
  Model& model = learner->model();
  const DeviceBatch batch = batch_for(resnet_recipe());
  {
    const at::NoGradGuard no_grad;
    for (int i = 0; i < 100; ++i)
      (void)model.forward(batch.images);
  }
  const auto moved = [&model](double factor) -> Learner::Forward {
    return [&model, factor](const at::Tensor& images) {
      {
        const at::NoGradGuard no_grad;
        for (const auto& buffer : model.named_buffers())
          if (buffer.key() == "bn1.running_var") buffer.value().mul_(factor);
      }
      return model.forward(images);
    };
  };
  Compared compared(*learner);
  const Checkpoint start = learner->capture();
  EXPECT_EQ(compared.step(batch, moved(1.002), Closeness::near), "");
  ASSERT_TRUE(learner->restore(start));
  EXPECT_EQ(compared.step(batch, moved(1.02), Closeness::near),
            "leaves other numbers in buffer bn1.running_var than the model's own forward");
}

// It may have changed modules, so that they need its forward.
TEST(OwnPass, FindsAModelThatFailsAlone) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  DeviceBatch batch = batch_for(small_recipe());
  batch.images = at::randn({8, 1, 4, 4});
  const Learner::Forward enlarges = [&learner](const at::Tensor& images) {
    return learner->model().forward(images.repeat({1, 1, 2, 2}));
  };
  EXPECT_THAT(Compared(*learner).step(batch, enlarges, Closeness::near),
              HasSubstr("leaves a model that fails without its forward (mat1 and mat2 shapes"));
}

// They change gradients behind the forward, and are none of the model's.
TEST(OwnPass, FindsWhatHooksOfParametersDo) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  Compared compared(*learner);
  const DeviceBatch batch = batch_for(small_recipe());
  int called = 0;
  const at::Tensor parameter = learner->model().parameters()[0];
  const unsigned hook = parameter.register_hook([&called](const at::Tensor& gradient) {
    ++called;
    return gradient * 0.0;
  });
  EXPECT_THAT(compared.step(batch, nullptr, Closeness::near), HasSubstr(kOtherGradients));
  EXPECT_EQ(called, 1);
  (void)learner->step(batch, 0.05);
  EXPECT_EQ(called, 2) << "it is still there";
  parameter.remove_hook(hook);
  EXPECT_EQ(compared.step(batch), "");
}

TEST(OwnPass, LeavesTheTensorsOfGradients) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  const DeviceBatch batch = batch_for(small_recipe());
  const at::Tensor parameter = learner->model().parameters()[0];
  OwnPass own;
  learner->set_before_update([&] {
    const at::Tensor before = parameter.grad();
    const at::Tensor numbers = before.clone();
    EXPECT_EQ(own.difference_of_step(*learner, Closeness::equal), "");
    EXPECT_TRUE(parameter.grad().is_same(before));
    EXPECT_TRUE(at::equal(before, numbers));
  });
  for (int i = 0; i < 2; ++i) {
    own.begin_step(*learner, batch);
    (void)learner->step(batch, 0.05);
  }
}

TEST(OwnPass, CallsNoWatch) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  int calls = 0;
  learner->watch_inputs({.labels = [&](const at::Tensor& /*labels*/) { ++calls; },
                         .images = [&](const at::Tensor& /*images*/) { ++calls; }});
  EXPECT_EQ(Compared(*learner).step(batch_for(small_recipe())), "");
  EXPECT_EQ(calls, 1) << "the labels of the step: its forward is that of an extension";
}

TEST(OwnPass, SaysNothingOfAStepThatOverflows) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  DeviceBatch batch = batch_for(small_recipe());
  batch.images = at::full({8, 1, 8, 8}, std::numeric_limits<double>::infinity());
  EXPECT_EQ(Compared(*learner).step(batch), "");
}

// The weights are rounded for a while where answers are not near.
TEST(OwnPass, FindsOtherAnswers) {
  for (const recipes::Recipe& recipe : {small_recipe(), resnet_recipe()}) {
    const auto learner = learner_of(recipe);
    ASSERT_NE(learner, nullptr);
    const at::NoGradGuard no_grad;
    learner->model().eval();
    const at::Tensor images = batch_for(recipe).images;
    const at::Tensor answer = learner->model().forward(images);
    const at::Tensor weight = learner->model().parameters()[0];
    const at::Tensor numbers = weight.clone();
    const void* const place = weight.const_data_ptr();
    OwnPass own;
    own.begin_answer(*learner, images);
    const auto difference = [&](const at::Tensor& told, Closeness asked) {
      return own.difference_of_answer(*learner, told, asked);
    };
    const at::Tensor rounded = answer.to(at::kBFloat16);
    EXPECT_EQ(difference(answer, Closeness::equal), "");
    EXPECT_EQ(difference(rounded, Closeness::near), "");
    EXPECT_THAT(difference(rounded, Closeness::equal), HasSubstr(kOtherAnswers));
    EXPECT_THAT(difference(answer.neg(), Closeness::near), HasSubstr(kOtherAnswers));
    EXPECT_THAT(difference(answer.flip({0}), Closeness::near), HasSubstr(kOtherAnswers));
    EXPECT_THAT(difference(answer.narrow(0, 0, 4), Closeness::near),
                HasSubstr(std::string(kOtherAnswers) + " (of another size)"));
    EXPECT_TRUE(at::equal(weight, numbers));
    EXPECT_EQ(weight.const_data_ptr(), place);
  }
}

TEST(OwnPass, DrawsSteps) {
  constexpr int kDraws = 100'000;
  OwnPass own;
  int drawn = 0;
  for (int step = 0; step < kDraws; ++step)
    if (own.takes_step(Repeats::drawn)) ++drawn;
  // Six standard deviations around the mean.
  EXPECT_GT(drawn, 272);
  EXPECT_LT(drawn, 509);
  EXPECT_TRUE(own.takes_step(Repeats::always));
  EXPECT_FALSE(own.takes_step(Repeats::never));
}

}  // namespace
}  // namespace autotuned::trainer
