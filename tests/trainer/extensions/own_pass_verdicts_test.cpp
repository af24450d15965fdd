// SPDX-License-Identifier: Apache-2.0
// What is said of a step or an answer that is not what the model computes by itself, and when nothing is.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/extensions/compared_steps.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/extensions/own_pass.hpp"
#include "trainer/models/model.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr const char* kNotFinite = " (with numbers that are not finite)";

// While one lives, gradients are a fifth as long, and some numbers of the first of them are infinite.
class Spoilt {
 public:
  Spoilt(Learner& learner, std::size_t infinite) {
    for (const at::Tensor& parameter : learner.model().parameters()) {
      const bool is_infinite = hooks_.size() < infinite;
      const unsigned hook = parameter.register_hook([is_infinite](const at::Tensor& gradient) {
        at::Tensor other = gradient * 0.2;
        if (is_infinite) other[0].fill_(kInfinity);
        return other;
      });
      hooks_.emplace_back(parameter, hook);
    }
  }
  ~Spoilt() {
    for (const auto& [parameter, hook] : hooks_)
      parameter.remove_hook(hook);
  }
  Spoilt(const Spoilt&) = delete;
  Spoilt& operator=(const Spoilt&) = delete;

 private:
  std::vector<std::pair<at::Tensor, unsigned>> hooks_;
};

// Which clipping by value would make finite again.
TEST(OwnPassVerdicts, OneInfiniteNumberDoesNotHideTheOthers) {
  for (const std::size_t infinite : {std::size_t{1}, std::size_t{100}}) {
    for (const Closeness asked : {Closeness::equal, Closeness::near}) {
      for (const bool is_in_16_bits : {false, true}) {
        const auto learner = learner_of(small_recipe());
        ASSERT_NE(learner, nullptr);
        if (is_in_16_bits) learner->configure({.autocast = at::kBFloat16});
        const Spoilt spoilt(*learner, infinite);
        EXPECT_EQ(Compared(*learner).step(batch_for(small_recipe()), nullptr, asked),
                  std::string(kOtherGradients) + kNotFinite);
      }
    }
  }
}

// Rounding may decide what overflows there. The finite ones are compared all the same.
TEST(OwnPassVerdicts, UnderFp16AGradientMayOverflow) {
  const auto difference = [](std::size_t infinite) -> std::string {
    const auto learner = learner_of(small_recipe());
    if (learner == nullptr) return "no learner";
    learner->configure({.autocast = at::kHalf});
    learner->set_loss_scale(16.0);
    const Spoilt spoilt(*learner, infinite);
    return Compared(*learner).step(batch_for(small_recipe()), nullptr, Closeness::near);
  };
  EXPECT_EQ(difference(100), "");
  EXPECT_THAT(difference(1), HasSubstr(kOtherGradients));
  EXPECT_THAT(difference(0), HasSubstr(kOtherGradients));
}

TEST(OwnPassVerdicts, OneInfiniteAnswerDoesNotHideTheOthers) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  const at::NoGradGuard no_grad;
  learner->model().eval();
  const at::Tensor images = batch_for(small_recipe()).images;
  const at::Tensor made_up = at::zeros_like(learner->model().forward(images));
  made_up[0][0].fill_(-kInfinity);
  OwnPass own;
  own.begin_answer(*learner, images);
  for (const Closeness asked : {Closeness::equal, Closeness::near}) {
    EXPECT_EQ(own.difference_of_answer(*learner, made_up, asked),
              std::string(kOtherAnswers) + kNotFinite);
  }
}

TEST(OwnPassVerdicts, AnInfiniteBufferIsSeen) {
  const auto learner = learner_of(resnet_recipe());
  ASSERT_NE(learner, nullptr);
  const Learner::Forward spoils = [&learner](const at::Tensor& images) {
    {
      const at::NoGradGuard no_grad;
      for (const auto& buffer : learner->model().named_buffers())
        if (buffer.key() == "bn1.running_var") buffer.value()[0].fill_(kInfinity);
    }
    return learner->model().forward(images);
  };
  EXPECT_EQ(Compared(*learner).step(batch_for(resnet_recipe()), spoils, Closeness::near),
            "leaves other numbers in buffer bn1.running_var than the model's own forward");
}

TEST(OwnPassVerdicts, TellWhatIsOnlyRounded) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  const Learner::Forward rounded = [&learner](const at::Tensor& images) {
    return learner->model().forward(images.to(at::kBFloat16).to(at::kFloat));
  };
  EXPECT_THAT(Compared(*learner).step(batch_for(small_recipe()), rounded, Closeness::equal),
              HasSubstr("(it differs in rounding: declare it numerics)"));
}

TEST(OwnPassVerdicts, TellThatRandomNumbersWereDrawn) {
  const auto learner = learner_of(patch_dropout_recipe());
  ASSERT_NE(learner, nullptr);
  Compared compared(*learner);
  const DeviceBatch batch = batch_for(patch_dropout_recipe());
  const Learner::Forward draws_before = [&learner](const at::Tensor& images) {
    (void)at::rand({8});
    return learner->model().forward(images);
  };
  EXPECT_THAT(compared.step(batch, draws_before, Closeness::equal),
              HasSubstr("(it has moved LibTorch's random generator)"));
  const Learner::Forward draws_after = [&learner](const at::Tensor& images) {
    at::Tensor logits = learner->model().forward(images);
    (void)at::rand({8});
    return logits;
  };
  EXPECT_EQ(compared.step(batch, draws_after, Closeness::equal), "");
}

// Each single step is within the limits.
TEST(OwnPassVerdicts, TellASteadyFactor) {
  const auto learner = learner_of(small_recipe());
  ASSERT_NE(learner, nullptr);
  Compared compared(*learner);
  const auto step = [&](double factor) {
    const Learner::Forward longer = [&learner, factor](const at::Tensor& images) {
      const at::Tensor logits = learner->model().forward(images);
      return logits * factor - logits.detach() * (factor - 1.0);
    };
    return compared.step(batch_for(small_recipe()), longer, Closeness::near);
  };
  const std::string steady =
      std::string(kOtherGradients) + " (norm 1.2 times as long in the mean of 5 compared steps)";
  for (int i = 1; i < 5; ++i)
    EXPECT_EQ(step(1.2), "") << i;
  EXPECT_EQ(step(1.2), steady);
  compared.own().forget_steps();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(step(1.05), "") << i;
}

}  // namespace
}  // namespace autotuned::trainer
