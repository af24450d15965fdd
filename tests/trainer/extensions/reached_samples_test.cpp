// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/reached_samples.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

namespace autotuned::trainer {
namespace {

class ReachedSamplesTest : public testing::Test {
 protected:
  ReachedSamplesTest() {
    weight_.requires_grad_(true);
    reached_->start(images_);
  }

  // Of samples from `first` on.
  at::Tensor output(std::int64_t first, std::int64_t samples) {
    const at::Tensor part = images_.narrow(0, first, samples);
    at::Tensor made = part.matmul(weight_);
    reached_->watch(part, made);
    return made;
  }
  at::Tensor output_without_gradients(std::int64_t first, std::int64_t samples) {
    const at::NoGradGuard no_grad;
    return output(first, samples);
  }
  std::string after_backward(const at::Tensor& whole) {
    reached_->begin_backward();
    whole.sum().backward();
    return reached_->difference();
  }

  at::Tensor images_ = at::ones({6, 3});
  at::Tensor weight_ = at::ones({3, 2});
  std::unique_ptr<ReachedSamples> reached_ = std::make_unique<ReachedSamples>();
};

TEST_F(ReachedSamplesTest, AreAllInOneOrMoreParts) {
  EXPECT_EQ(after_backward(output(0, 6)), "");
  reached_->start(images_);
  EXPECT_EQ(after_backward(at::cat({output(0, 4), output(4, 2) * 0.5})), "");
  reached_->start(images_);
  EXPECT_EQ(after_backward(output(0, 6).mul_(0.0)), "");
}

TEST_F(ReachedSamplesTest, AreNotThoseOfADetachedPart) {
  EXPECT_EQ(after_backward(at::cat({output(0, 1), output(1, 5).detach()})),
            "5 of 6 samples get no gradient");
  reached_->start(images_);
  EXPECT_EQ(after_backward(at::cat({output(0, 4), output_without_gradients(4, 2)})),
            "2 of 6 samples get no gradient");
}

TEST_F(ReachedSamplesTest, ArePartsThatAreComputedInTheBackwardPass) {
  (void)output_without_gradients(0, 6);
  reached_->begin_backward();
  EXPECT_EQ(reached_->difference(), "6 of 6 samples get no gradient");
  output(0, 6).sum().backward();
  EXPECT_EQ(reached_->difference(), "");
}

TEST_F(ReachedSamplesTest, CountOnceAndInTheBackwardPassOnly) {
  const at::Tensor trained = output(0, 3);
  trained.sum().backward({}, /*retain_graph=*/true);
  EXPECT_EQ(after_backward(output(3, 3)), "3 of 6 samples get no gradient");
  reached_->start(images_);
  const at::Tensor repeated = output(0, 3);
  reached_->begin_backward();
  repeated.sum().backward({}, /*retain_graph=*/true);
  repeated.sum().backward();
  EXPECT_EQ(reached_->difference(), "3 of 6 samples get no gradient");
}

TEST_F(ReachedSamplesTest, MayBeGoneBeforeTheGraph) {
  const at::Tensor kept = output(0, 6);
  reached_.reset();
  kept.sum().backward();
  EXPECT_TRUE(weight_.grad().defined());
}

TEST(ReachedSamples, AreNotMissedBeforeAForwardPass) {
  const ReachedSamples reached;
  EXPECT_EQ(reached.difference(), "");
}

}  // namespace
}  // namespace autotuned::trainer
