// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/given_batch.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

class GivenBatchTest : public testing::Test {
 protected:
  GivenBatchTest() { given_.take(images_, labels_); }

  at::Tensor images_ = at::arange(1, 1 + 6 * 2 * 4 * 4, at::kFloat).reshape({6, 2, 4, 4});
  at::Tensor labels_ = at::arange(6, at::kLong);
  GivenBatch given_;
};

TEST_F(GivenBatchTest, MayBeInOtherMemory) {
  EXPECT_EQ(given_.difference(images_, labels_, false), "");
  EXPECT_EQ(
      given_.difference(images_.contiguous(at::MemoryFormat::ChannelsLast), labels_.clone(), false),
      "");
  EXPECT_EQ(given_.difference(images_.to(at::kDouble), labels_, false), "");
}

TEST_F(GivenBatchTest, MayBeRoundedWhereThatIsDeclared) {
  const at::Tensor rounded = (images_ + 0.3F).to(at::kBFloat16);
  EXPECT_EQ(given_.difference(rounded, labels_, true), "");
  EXPECT_EQ(given_.difference(rounded, labels_, false), "leaves other images");
}

TEST_F(GivenBatchTest, NamesWhatIsOther) {
  const auto first = [](const at::Tensor& tensor) { return tensor.narrow(0, 0, 1); };
  EXPECT_EQ(given_.difference(first(images_), first(labels_), true),
            "leaves 1 sample instead of 6");
  EXPECT_EQ(given_.difference(images_.narrow(3, 0, 2), labels_, true),
            "leaves images of another size");
  EXPECT_EQ(given_.difference(images_, labels_.to(at::kInt), true),
            "leaves labels of another size or type");
  EXPECT_EQ(given_.difference(images_, labels_.flip(0), true), "leaves other labels");
  EXPECT_EQ(given_.difference(images_.neg(), labels_, true), "leaves other images");
}

TEST_F(GivenBatchTest, KnowsWhatWasThereBeforeAChangeInPlace) {
  labels_[5] = 4;
  EXPECT_EQ(given_.difference(images_, labels_, true), "leaves other labels");
}

// Only some numbers of targets such as masks are read, at other places each time.
TEST(GivenBatch, SeesOtherMasksSoonerOrLater) {
  const at::Tensor images = at::ones({2, 1, 64, 64});
  const at::Tensor masks = at::zeros({2, 64, 64}, at::kLong);
  ASSERT_GT(masks.nbytes(), GivenBatch::kMaxLabelBytes);
  at::Tensor other = masks.clone();
  other.narrow(1, 0, 16).fill_(1);
  GivenBatch given;
  int seen = 0;
  for (int step = 0; step < 20; ++step) {
    given.take(images, masks);
    EXPECT_EQ(given.difference(images, masks.clone(), false), "");
    if (given.difference(images, other, false) == "leaves other labels") ++seen;
  }
  EXPECT_GE(seen, 10);
}

TEST(GivenBatch, TakesTokens) {
  const at::Tensor tokens = at::arange(1, 41, at::kLong).reshape({4, 10});
  GivenBatch given;
  given.take(tokens, tokens + 1);
  EXPECT_EQ(given.difference(tokens.clone(), tokens + 1, false), "");
  EXPECT_THAT(given.difference(tokens.narrow(1, 0, 5), tokens.narrow(1, 0, 5), false),
              HasSubstr("another size"));
}

TEST(ShownImages, AreAllOfThemInOneOrMoreParts) {
  const at::Tensor images = at::ones({6, 1, 4, 4});
  ShownImages shown;
  shown.start(images);
  shown.add(images.narrow(0, 0, 4));
  EXPECT_EQ(shown.difference(), "shows the model 4 samples instead of 6");
  shown.add(images.narrow(0, 4, 2));
  EXPECT_EQ(shown.difference(), "");
  shown.start(images);
  shown.add(images.narrow(2, 0, 2));
  EXPECT_EQ(shown.difference(), "shows the model images of another size");
}

}  // namespace
}  // namespace autotuned::trainer
