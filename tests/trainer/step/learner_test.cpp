// SPDX-License-Identifier: Apache-2.0
// The parts of a step, against LibTorch's own.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>

#include "tests/trainer/small_job.hpp"
#include "trainer/common/precision.hpp"
#include "trainer/feed/feed.hpp"
#include "trainer/models/model.hpp"

namespace autotuned::trainer {
namespace {

TEST(LossScaler, UnscalesAndSkipsWhatIsNotFinite) {
  LossScaler scaler(at::kCPU);
  const float scale = scaler.scale_tensor().item<float>();
  EXPECT_EQ(scale, 65536.0F);
  std::vector<at::Tensor> gradients = {at::full({3}, 65536.0F), at::full({2}, -131072.0F)};
  EXPECT_TRUE(scaler.unscale(gradients));
  EXPECT_TRUE(at::equal(gradients[0], at::ones({3})));
  EXPECT_TRUE(at::equal(gradients[1], at::full({2}, -2.0F)));
  gradients[1][0] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(scaler.unscale(gradients));
  EXPECT_EQ(scaler.scale_tensor().item<float>(), scale / 2);
  EXPECT_EQ(scaler.growth_tensor().item<int>(), 0);
}

TEST(LossScaler, GrowsAfterManyFiniteSteps) {
  LossScaler scaler(at::kCPU);
  const std::vector<at::Tensor> gradients = {at::ones({1})};
  for (int i = 0; i < 2000; ++i)
    ASSERT_TRUE(scaler.unscale(gradients));
  EXPECT_EQ(scaler.scale_tensor().item<float>(), 131072.0F);
}

TEST(Autocast, CastsInsideAndNotOutside) {
  const at::Tensor a = at::ones({4, 4});
  {
    const AutocastGuard guard(at::kCPU, at::kBFloat16);
    EXPECT_EQ(at::mm(a, a).scalar_type(), at::kBFloat16);
    {
      const AutocastGuard off(at::kCPU, std::nullopt);
      EXPECT_EQ(at::mm(a, a).scalar_type(), at::kFloat);
    }
    EXPECT_EQ(at::mm(a, a).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(at::mm(a, a).scalar_type(), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

// A weight that is updated between two forward passes must be cast again.
TEST(Autocast, ForgetsCastWeights) {
  const at::Tensor input = at::ones({1, 2});
  at::Tensor weight = at::ones({2, 2}).set_requires_grad(true);
  const auto product = [&] {
    const AutocastGuard guard(at::kCPU, at::kBFloat16);
    return at::mm(input, weight).to(at::kFloat);
  };
  EXPECT_TRUE(at::equal(product(), at::full({1, 2}, 2.0F)));
  weight.data().fill_(3.0F);
  EXPECT_TRUE(at::equal(product(), at::full({1, 2}, 6.0F)));
}

struct FeedParts {
  std::unique_ptr<input::Dataset> data;
  std::unique_ptr<input::Pipeline> pipeline;
  std::unique_ptr<Feed> feed;
};

FeedParts feed_of(int channels, const FeedSettings& settings) {
  FeedParts parts;
  parts.data = value_of(input::open_dataset(
      "synthetic", {{"samples", 50}, {"shape", {channels, 6, 5}}, {"classes", 3}}));
  const std::vector<input::Transform> transforms = {{"scale", {{"by", "1/255"}}},
                                                    {"normalize", {{"mean", 0.3}, {"std", 0.7}}}};
  parts.pipeline = std::make_unique<input::Pipeline>(
      value_of(input::Pipeline::compile(parts.data->type(), transforms, 1)));
  parts.feed =
      value_of(Feed::create(*parts.data, {.seed = 1}, *parts.pipeline, at::kCPU, settings));
  return parts;
}

TEST(Feed, MemoryFormatAndTransferTypeGiveTheSameNumbers) {
  for (const int channels : {1, 3}) {
    FeedParts plain = feed_of(channels, {.batch_size = 8});
    for (const bool is_uint8 : {false, true}) {
      for (const bool is_channels_last : {false, true}) {
        SCOPED_TRACE(testing::Message() << channels << is_uint8 << is_channels_last);
        FeedParts other = feed_of(channels, {.workers = 1,
                                             .batch_size = 8,
                                             .is_uint8 = is_uint8,
                                             .is_channels_last = is_channels_last});
        plain.feed->seek({});
        other.feed->resume();
        for (int i = 0; i < 4; ++i) {
          const DeviceBatch expected = value_of(plain.feed->next());
          const DeviceBatch batch = value_of(other.feed->next());
          EXPECT_TRUE(at::equal(batch.images, expected.images));
          EXPECT_TRUE(at::equal(batch.labels, expected.labels));
          EXPECT_EQ(batch.images.suggest_memory_format(), is_channels_last
                                                              ? at::MemoryFormat::ChannelsLast
                                                              : at::MemoryFormat::Contiguous);
          EXPECT_EQ(batch.bytes, 8 * (channels * 30 * (is_uint8 ? 1 : 4) + 8));
          plain.feed->done();
          other.feed->done();
        }
      }
    }
  }
}

TEST(Feed, AShortLastBatchIsShort) {
  FeedParts parts = feed_of(
      1, {.batch_size = 16, .drop_last = false, .is_uint8 = true, .is_channels_last = true});
  for (const std::int64_t samples : {16, 16, 16, 2}) {
    const DeviceBatch batch = value_of(parts.feed->next());
    EXPECT_EQ(batch.images.size(0), samples);
    EXPECT_EQ(batch.labels.size(0), samples);
    EXPECT_EQ(batch.ends_epoch, samples == 2);
    parts.feed->done();
  }
}

// One channel looks contiguous either way: only the strides tell LibTorch which kernels to take.
TEST(Model, ChannelsLastReachesTheConvolutionsOfOneChannelImages) {
  const FeedParts parts = feed_of(1, {.batch_size = 4, .is_channels_last = true});
  const DeviceBatch batch = value_of(parts.feed->next());
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(1, 8, 3).padding(1));
  EXPECT_EQ(convolution->forward(batch.images).suggest_memory_format(),
            at::MemoryFormat::ChannelsLast);
}

// The order of ReLU and pooling is ours to choose as long as no bit shows it.
TEST(Model, FashionCnnComputesConvolutionReluPooling) {
  at::manual_seed(5);
  const auto model = value_of(
      make_model({"fashion_cnn", {{"classes", 10}}}, {.channels = 2, .height = 9, .width = 8}));
  const at::Tensor images = at::randn({6, 2, 9, 8});
  const auto gradients_of = [&](const at::Tensor& logits) {
    model->zero_grad();
    logits.square().sum().backward();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : model->parameters())
      gradients.push_back(parameter.grad());
    return gradients;
  };
  const at::Tensor ours = model->forward(images);
  const std::vector<at::Tensor> our_gradients = gradients_of(ours);

  const auto p = model->named_parameters();
  at::Tensor x = at::conv2d(images, p["conv1.weight"], p["conv1.bias"], 1, 1);
  x = at::max_pool2d(at::relu(x), 2);
  x = at::max_pool2d(at::relu(at::conv2d(x, p["conv2.weight"], p["conv2.bias"], 1, 1)), 2);
  const at::Tensor written = at::linear(x.flatten(1), p["linear.weight"], p["linear.bias"]);
  const std::vector<at::Tensor> written_gradients = gradients_of(written);

  EXPECT_TRUE(at::equal(ours, written));
  for (std::size_t i = 0; i < our_gradients.size(); ++i) {
    EXPECT_TRUE(at::equal(our_gradients[i], written_gradients[i])) << i;
  }
}

TEST(Model, NamesItsParametersAsPyTorchWould) {
  const auto model = value_of(
      make_model({"fashion_cnn", {{"classes", 10}}}, {.channels = 1, .height = 28, .width = 28}));
  std::vector<std::string> names;
  std::int64_t count = 0;
  for (const auto& parameter : model->named_parameters()) {
    names.push_back(parameter.key());
    count += parameter.value().numel();
  }
  EXPECT_THAT(names, testing::ElementsAre("conv1.weight", "conv1.bias", "conv2.weight",
                                          "conv2.bias", "linear.weight", "linear.bias"));
  EXPECT_EQ(count, 320 + 18496 + 31370);
  EXPECT_EQ(model->forward(at::zeros({2, 1, 28, 28})).sizes(), (at::IntArrayRef{2, 10}));
}

}  // namespace
}  // namespace autotuned::trainer
