// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/weight_watch.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

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
        mean(register_buffer("mean", at::ones({4}))) {}

  at::Tensor weight;
  at::Tensor bias;
  at::Tensor mean;
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

// Parameters may be exchanged for a while, as an evaluation of averages does.
TEST_F(WeightWatchTest, ComparesNumbersAlone) {
  const at::NoGradGuard no_grad;
  net_.bias.add_(1.0).sub_(1.0);
  net_.weight.set_data(net_.weight.detach().contiguous());
  EXPECT_EQ(watch_.difference_in_numbers(), "");
  net_.mean.add_(1.0);
  EXPECT_EQ(watch_.difference_in_numbers(), "") << "a buffer";
}

TEST(WeightWatch, HasNothingToSeeInAModelWithoutTensors) {
  const torch::nn::Module empty;
  WeightWatch watch;
  watch.watch(empty);
  EXPECT_EQ(watch.difference(WeightWatch::Of::all), "");
}

}  // namespace
}  // namespace autotuned::trainer
