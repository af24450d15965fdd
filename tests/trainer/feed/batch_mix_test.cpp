// SPDX-License-Identifier: Apache-2.0
// MixUp and CutMix: what is drawn, what becomes of a batch, and that no knob changes it.
#include "trainer/feed/batch_mix.hpp"

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::int64_t kHeight = 12;
constexpr std::int64_t kWidth = 20;

Mixing drawn(const MixRules& rules, std::int64_t sample, std::int64_t epoch = 0,
             std::uint64_t seed = 1) {
  return draw_mixing(rules, seed, {.epoch = epoch, .sample = sample}, kHeight, kWidth);
}

DeviceBatch batch_of_three() {
  DeviceBatch batch;
  batch.images = at::arange(3 * 2 * kHeight * kWidth, at::kFloat).view({3, 2, kHeight, kWidth});
  batch.labels = at::tensor(std::vector<std::int64_t>{2, 0, 3});
  batch.samples = 3;
  return batch;
}

TEST(BatchMix, IsDrawnByPositionAndSeed) {
  const MixRules rules = {.mixup_alpha = 0.4, .cutmix_alpha = {}};
  EXPECT_EQ(drawn(rules, 40).own_share, drawn(rules, 40).own_share);
  EXPECT_NE(drawn(rules, 40).own_share, drawn(rules, 80).own_share);
  EXPECT_NE(drawn(rules, 40).own_share, drawn(rules, 40, 1).own_share);
  EXPECT_NE(drawn(rules, 40).own_share, drawn(rules, 40, 0, 2).own_share);
}

// The moments of Beta(alpha, alpha): mean 1/2, variance 1 / (4 (2 alpha + 1)).
TEST(BatchMix, HasSharesOfABetaDistribution) {
  constexpr int kDraws = 20'000;
  for (const double alpha : {0.01, 0.2, 1.0, 4.0}) {
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double share = drawn({.mixup_alpha = alpha, .cutmix_alpha = {}}, i).own_share;
      ASSERT_GE(share, 0.0);
      ASSERT_LE(share, 1.0);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / kDraws, 0.25 / (2 * alpha + 1), 0.006) << alpha;
  }
}

TEST(BatchMix, TakesEitherOfTwoAtRandom) {
  int cut = 0;
  for (int i = 0; i < 1000; ++i)
    cut += drawn({.mixup_alpha = 1.0, .cutmix_alpha = 1.0}, i).is_cut ? 1 : 0;
  EXPECT_GT(cut, 400);
  EXPECT_LT(cut, 600);
  EXPECT_FALSE(drawn({.mixup_alpha = 1.0, .cutmix_alpha = {}}, 0).is_cut);
  EXPECT_TRUE(drawn({.mixup_alpha = {}, .cutmix_alpha = 1.0}, 0).is_cut);
}

TEST(BatchMix, CutsRectanglesWithinTheImage) {
  for (int i = 0; i < 1000; ++i) {
    const Mixing mixing = drawn({.mixup_alpha = {}, .cutmix_alpha = 0.5}, i);
    ASSERT_GE(mixing.top, 0);
    ASSERT_GE(mixing.left, 0);
    ASSERT_LE(mixing.top + mixing.height, kHeight);
    ASSERT_LE(mixing.left + mixing.width, kWidth);
    ASSERT_DOUBLE_EQ(mixing.own_share,
                     1.0 - static_cast<double>(mixing.height * mixing.width) / (kHeight * kWidth));
  }
}

TEST(BatchMix, MixesEachSampleWithTheOneBefore) {
  const DeviceBatch batch = batch_of_three();
  const at::Tensor before = batch.images.clone();
  const DeviceBatch result = mixed(batch, {.own_share = 0.75}, 4);
  const at::Tensor others = at::stack({before[2], before[0], before[1]});
  EXPECT_TRUE(at::allclose(result.images, before * 0.75 + others * 0.25));
  EXPECT_TRUE(at::equal(batch.images, before)) << "the batch belongs to the loader";
  const at::Tensor shares =
      at::tensor(std::vector<float>{0, 0, 0.75F, 0.25F, 0.75F, 0, 0.25F, 0, 0.25F, 0, 0, 0.75F});
  EXPECT_TRUE(at::equal(result.labels, shares.view({3, 4})));
  EXPECT_EQ(result.samples, 3);
}

TEST(BatchMix, ExchangesARectangle) {
  const DeviceBatch batch = batch_of_three();
  const at::Tensor before = batch.images.clone();
  const Mixing mixing = {
      .is_cut = true, .own_share = 0.9, .top = 2, .left = 5, .height = 4, .width = 6};
  const at::Tensor images = mixed(batch, mixing, 4).images;
  EXPECT_TRUE(at::equal(batch.images, before));
  for (std::int64_t y = 0; y < kHeight; ++y) {
    for (std::int64_t x = 0; x < kWidth; ++x) {
      const bool is_inside = y >= 2 && y < 6 && x >= 5 && x < 11;
      const at::Tensor from = is_inside ? before[0] : before[1];
      ASSERT_TRUE(at::equal(images[1].select(1, y).select(1, x), from.select(1, y).select(1, x)));
    }
  }
  EXPECT_TRUE(at::equal(mixed(batch, {.is_cut = true}, 4).images, before));
}

TEST(BatchMix, OfAJobIsTheSameWhateverLoadsIt) {
  recipes::Recipe recipe = small_recipe();
  const auto plain = load(recipe);
  recipe.step_rules.mixup_alpha = 0.4;
  recipe.step_rules.cutmix_alpha = 1.0;
  const auto job = load(recipe);
  ASSERT_TRUE(job != nullptr && plain != nullptr);
  EXPECT_EQ(value_of(job->evaluate(never)).loss, value_of(plain->evaluate(never)).loss);
  const Configuration start = starting(recipe);
  const auto look = [&](const Configuration& configuration) {
    value_of(job->prepare(configuration));
    EXPECT_TRUE(job->restore("initial"));
    return value_of(job->check_steps({.steps = 12}, never));
  };
  const CheckedSteps expected = look(start);
  EXPECT_NE(expected.block.losses, value_of(plain->run_steps(12, never)).losses);
  for (const Configuration& other :
       {with(start, "loader.workers", std::int64_t{2}), with(start, "transfer.dtype", "uint8")}) {
    const CheckedSteps found = look(other);
    EXPECT_EQ(found.block.losses, expected.block.losses);
    for (std::size_t i = 0; i < expected.inputs.size(); ++i) {
      EXPECT_EQ(found.inputs[i].labels, expected.inputs[i].labels);
      EXPECT_EQ(found.inputs[i].images, expected.inputs[i].images);
    }
  }
  recipe.loss = "mse";
  const auto refused = Job::load(recipe, start, test_machine(), cpu_only());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), testing::HasSubstr("cross_entropy"));
}

}  // namespace
}  // namespace autotuned::trainer
