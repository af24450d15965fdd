// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/weight_watch.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace autotuned::trainer {
namespace {

class Net final : public torch::nn::Module {
 public:
  Net()
      // Not in the order of its memory.
      : weight(register_parameter("weight",
                                  at::arange(1, 33, at::kFloat).reshape({4, 8}).t().clone())),
        bias(register_parameter("bias", at::ones({4}))),
        mean(register_buffer("mean", at::ones({4}))),
        inner(register_module("inner", std::make_shared<torch::nn::Module>())) {}

  at::Tensor weight;
  at::Tensor bias;
  at::Tensor mean;
  std::shared_ptr<torch::nn::Module> inner;
};

class WeightWatchTest : public testing::Test {
 protected:
  WeightWatchTest() { watch_.watch(net_); }

  std::string all() const { return watch_.difference(WeightWatch::Of::all); }
  std::string parameters() const { return watch_.difference(WeightWatch::Of::parameters); }

  Net net_;
  WeightWatch watch_;
};

TEST_F(WeightWatchTest, NamesWhatIsChangedInPlace) {
  const at::NoGradGuard no_grad;
  EXPECT_EQ(all(), "");
  net_.bias.select(0, 0).fill_(2.0);
  EXPECT_EQ(parameters(), "changes parameter bias");
  watch_.take();
  EXPECT_EQ(all(), "");
  net_.mean.add_(1.0);
  EXPECT_EQ(parameters(), "");
  EXPECT_EQ(all(), "changes buffer mean");
}

TEST_F(WeightWatchTest, NamesWhatIsPutInThePlace) {
  const at::NoGradGuard no_grad;
  net_.weight.set_data(net_.weight.detach().clone());
  EXPECT_EQ(parameters(), "changes parameter weight");
}

TEST_F(WeightWatchTest, NamesWhatIsFrozen) {
  net_.weight.requires_grad_(false);
  EXPECT_EQ(parameters(), "freezes parameter weight");
  watch_.take();
  net_.weight.requires_grad_(true);
  EXPECT_EQ(parameters(), "trains the frozen parameter weight");
}

// No count of LibTorch says so.
TEST_F(WeightWatchTest, SeesNumbersThatAreWrittenThroughAPointer) {
  auto* const numbers = static_cast<float*>(net_.weight.mutable_data_ptr());
  for (int i = 0; i < 32; ++i)
    numbers[i] *= 0.5F;
  EXPECT_EQ(parameters(), "changes parameter weight");
  EXPECT_EQ(watch_.difference_in_numbers(), "changes parameter weight");
}

TEST_F(WeightWatchTest, SeesOneNumberSoonerOrLater) {
  auto* const numbers = static_cast<float*>(net_.weight.mutable_data_ptr());
  int seen = 0;
  for (int look = 0; look < 400; ++look) {
    watch_.take();
    numbers[5] += 1.0F;
    if (parameters() == "changes parameter weight") ++seen;
  }
  EXPECT_GT(seen, 0);
  EXPECT_LT(seen, 400) << "not every number is compared";
}

TEST_F(WeightWatchTest, SeesEveryNumberByHashes) {
  EXPECT_EQ(watch_.difference_in_all_numbers(WeightWatch::Of::all), "") << "none are noted";
  for (int i = 0; i < 32; ++i) {
    watch_.take_all_numbers();
    EXPECT_EQ(watch_.difference_in_all_numbers(WeightWatch::Of::all), "");
    static_cast<float*>(net_.weight.mutable_data_ptr())[i] += 1.0F;
    EXPECT_EQ(watch_.difference_in_all_numbers(WeightWatch::Of::parameters),
              "changes parameter weight");
  }
  watch_.take_all_numbers();
  static_cast<float*>(net_.mean.mutable_data_ptr())[3] = 7.0F;
  EXPECT_EQ(watch_.difference_in_all_numbers(WeightWatch::Of::parameters), "");
  EXPECT_EQ(watch_.difference_in_all_numbers(WeightWatch::Of::all), "changes buffer mean");
  watch_.begin_step();
  EXPECT_EQ(watch_.difference_in_all_numbers(WeightWatch::Of::all), "");
}

// No count of LibTorch says so. Only the model may move them.
TEST_F(WeightWatchTest, KnowsTheNumbersOfBuffersAroundTheModel) {
  const auto fill = [this](float number) {
    auto* const numbers = static_cast<float*>(net_.mean.mutable_data_ptr());
    for (int i = 0; i < 4; ++i)
      numbers[i] = number;
  };
  watch_.begin_buffers();
  EXPECT_EQ(watch_.model_calls(), 0U);
  EXPECT_EQ(watch_.difference_of_buffers(true), "");
  EXPECT_EQ(watch_.difference_of_buffers(false), "") << "the model has not been called";
  fill(50.0F);
  EXPECT_EQ(watch_.difference_of_buffers(true), "changes buffer mean");
  fill(2.0F);
  watch_.add_buffers();
  EXPECT_EQ(watch_.model_calls(), 1U);
  EXPECT_EQ(watch_.difference_of_buffers(false), "");
  fill(1.0F);  // as at the begin
  EXPECT_EQ(watch_.difference_of_buffers(true), "");
  EXPECT_EQ(watch_.difference_of_buffers(false), "changes buffer mean");
  fill(3.0F);
  watch_.add_buffers();
  EXPECT_EQ(watch_.difference_of_buffers(false), "");
  fill(2.0F);  // what the second call has moved is put back
  EXPECT_EQ(watch_.difference_of_buffers(false), "");
  fill(4.0F);
  EXPECT_EQ(watch_.difference_of_buffers(true), "changes buffer mean");
  watch_.begin_buffers();
  EXPECT_EQ(watch_.difference_of_buffers(false), "");
}

// The order in memory does not count.
TEST_F(WeightWatchTest, HashesAreOfValues) {
  const at::NoGradGuard no_grad;
  watch_.take_all_numbers();
  net_.weight.set_data(net_.weight.detach().contiguous());
  EXPECT_EQ(watch_.difference_in_all_numbers(WeightWatch::Of::all), "");
}

TEST_F(WeightWatchTest, DrawsAStepOfAboutAThousand) {
  constexpr int kDraws = 100'000;
  int drawn = 0;
  for (int step = 0; step < kDraws; ++step) {
    watch_.begin_step();
    if (watch_.is_drawn_for_all()) ++drawn;
  }
  // Six standard deviations around the mean.
  EXPECT_GT(drawn, 38);
  EXPECT_LT(drawn, 157);
}

TEST_F(WeightWatchTest, NamesModulesThatChangeTheirMode) {
  net_.eval();
  EXPECT_EQ(parameters(), "puts the model in evaluation mode");
  watch_.take();
  EXPECT_EQ(all(), "");
  net_.train();
  EXPECT_EQ(all(), "puts the model in training mode");
  watch_.take();
  net_.inner->eval();
  EXPECT_EQ(all(), "puts module inner in evaluation mode");
}

TEST_F(WeightWatchTest, TellsWhetherThereIsAnyNewGradient) {
  net_.weight.mutable_grad() = at::ones({8, 4});
  watch_.take_gradients();
  EXPECT_FALSE(watch_.has_new_gradient());
  {
    const at::NoGradGuard no_grad;
    net_.weight.mutable_grad().add_(1.0);
  }
  EXPECT_TRUE(watch_.has_new_gradient());
  watch_.take_gradients();
  net_.bias.mutable_grad() = at::ones({4});
  EXPECT_TRUE(watch_.has_new_gradient());
}

// As of an embedding.
TEST_F(WeightWatchTest, KnowsSparseGradients) {
  watch_.take_gradients();
  net_.weight.mutable_grad() = at::ones({8, 4}).to_sparse();
  EXPECT_TRUE(watch_.has_new_gradient());
  watch_.take_gradients();
  EXPECT_FALSE(watch_.has_new_gradient());
  EXPECT_EQ(watch_.difference_of_gradients(), "");
}

// Parameters may be exchanged for a while, as an evaluation of averages does.
TEST_F(WeightWatchTest, ComparesNumbersAlone) {
  const at::NoGradGuard no_grad;
  net_.bias.add_(1.0).sub_(1.0);
  net_.weight.set_data(net_.weight.detach().contiguous());
  EXPECT_EQ(watch_.difference_in_numbers(), "");
  net_.mean.add_(1.0);
  EXPECT_EQ(watch_.difference_in_numbers(), "") << "a buffer";
}

// As the edges of a graph in a model of a user, and a table in 8 bits.
TEST(WeightWatch, LooksAtTensorsOfAllKinds) {
  torch::nn::Module net;
  net.register_buffer("edges", at::eye(3).to_sparse());
  net.register_buffer("mask", at::ones({2}, at::kBool));
  net.register_buffer("none", at::ones({0}));
  net.register_buffer("table", at::ones({4}).to(at::kFloat8_e4m3fn));
  WeightWatch watch;
  watch.watch(net);
  watch.begin_step();
  watch.take();
  watch.take_all_numbers();
  EXPECT_EQ(watch.difference(WeightWatch::Of::all), "");
  EXPECT_EQ(watch.difference_in_all_numbers(WeightWatch::Of::all), "");
  for (const auto& buffer : net.named_buffers()) {
    if (buffer.key() != "table") continue;
    *static_cast<unsigned char*>(buffer.value().mutable_data_ptr()) = 0x40;  // 2
  }
  EXPECT_EQ(watch.difference_in_all_numbers(WeightWatch::Of::all), "changes buffer table");
}

TEST(WeightWatch, HasNothingToSeeInAModelWithoutTensors) {
  const torch::nn::Module empty;
  WeightWatch watch;
  watch.watch(empty);
  EXPECT_EQ(watch.difference(WeightWatch::Of::all), "");
}

}  // namespace
}  // namespace autotuned::trainer
