// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/draws.hpp"

#include <gtest/gtest.h>

namespace autotuned::trainer {
namespace {

TEST(Draws, AreOthersEachTime) {
  Draws one;
  Draws other;
  EXPECT_NE(one.next(), other.next());
  EXPECT_NE(one.next(), one.next());
}

// Six standard deviations around the mean.
TEST(Draws, TakeOneOfSoMany) {
  Draws draws;
  int taken = 0;
  for (int i = 0; i < 100'000; ++i)
    if (draws.takes_one_of(256)) ++taken;
  EXPECT_GT(taken, 272);
  EXPECT_LT(taken, 509);
  EXPECT_TRUE(draws.takes_one_of(1));
}

TEST(BatchDraws, TakeOneBatchOfEachEvaluationAndAFewOthers) {
  constexpr int kEvaluations = 2000;
  constexpr int kBatches = 17;
  BatchDraws draws;
  int taken = 0;
  int taken_first = 0;
  for (int evaluation = 0; evaluation < kEvaluations; ++evaluation) {
    EXPECT_FALSE(draws.takes_next()) << "outside of an evaluation";
    draws.begin(kBatches);
    int of_these = 0;
    for (int batch = 0; batch < kBatches; ++batch) {
      if (!draws.takes_next()) continue;
      ++of_these;
      if (batch == 0) ++taken_first;
    }
    EXPECT_GE(of_these, 1);
    taken += of_these;
    draws.end();
  }
  // 1 + 16 / 16 batches of each, and the first of them in about one of nine: six standard deviations around the mean.
  EXPECT_GT(taken, 2 * kEvaluations - 260);
  EXPECT_LT(taken, 2 * kEvaluations + 260);
  EXPECT_GT(taken_first, 150);
  EXPECT_LT(taken_first, 320);
}

TEST(BatchDraws, TakeTheOnlyBatch) {
  BatchDraws draws;
  for (int evaluation = 0; evaluation < 20; ++evaluation) {
    draws.begin(1);
    EXPECT_TRUE(draws.takes_next());
  }
}

}  // namespace
}  // namespace autotuned::trainer
