// SPDX-License-Identifier: Apache-2.0
// The U-Net and the losses of masks against PyTorch's (segmentation_reference.py).
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/trainer/models/formula.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/input/common/sample.hpp"
#include "trainer/models/loss.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kMasks = 2'000'000;
constexpr std::uint32_t kLogits = 3'000'000;

const std::vector<Json>& entries() {
  static const std::vector<Json> all = reference("segmentation.json");
  return all;
}

at::Tensor masks_of(const std::vector<std::int64_t>& shape, int classes) {
  at::Tensor masks = at::empty(shape, at::kLong);
  auto* const numbers = masks.mutable_data_ptr<std::int64_t>();
  for (std::int64_t j = 0; j < masks.numel(); ++j) {
    const double share = (number(static_cast<std::uint32_t>(j), kMasks) + 1) / 2;
    const auto drawn = static_cast<std::int64_t>(share * (classes + 1));
    numbers[j] = drawn == classes ? input::kNoClass : drawn;
  }
  return masks;
}

std::shared_ptr<Model> made(const Json& model, const Json& sample) {
  recipes::Component spec{model["type"], model};
  spec.parameters.erase("type");
  at::manual_seed(3);
  return value_of(
      make_model(spec, {.channels = sample[0], .height = sample[1], .width = sample[2]}));
}

TEST(UNet, HasTheNamesAndTheInitialState) {
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& entry = entries().at(i);
    const auto model = made(entry["model"], entry["sample"]);
    ASSERT_TRUE(model);
    EXPECT_TRUE(model->gives_maps());
    std::vector<std::string> names;
    for (const auto& parameter : model->named_parameters()) {
      names.push_back(parameter.key() + " " + shape_in_reference(parameter.value()));
    }
    EXPECT_EQ(Json(names), entry["names"]);
    EXPECT_EQ(Json(model->named_buffers().keys()), entry["buffers"]);
    expect_near_reference(norms_of(model->parameters()), entry["initial_norms"], 1e-5, 1e-5);
  }
  // As its authors count them.
  EXPECT_EQ(entries().at(1)["parameters"], 31'037'698);
}

TEST(UNet, ComputesTheSame) {
  const Json& entry = entries().at(0);
  const auto model = made(entry["model"], entry["sample"]);
  ASSERT_TRUE(model);
  fill(*model);
  model->to(at::kDouble);
  const at::Tensor images = images_of({2, 2, 8, 12}).to(at::kDouble);
  model->eval();
  {
    const at::NoGradGuard no_grad;
    const at::Tensor logits = model->forward(images);
    EXPECT_EQ(logits.sizes(), (at::IntArrayRef{2, 3, 8, 12}));
    expect_near_reference(numbers_of(logits), entry["eval_output"], 1e-8, 1e-8);
  }
  model->train();
  const at::Tensor loss =
      loss_of(Loss::cross_entropy, model->forward(images), masks_of({2, 8, 12}, 3));
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), entry["loss"].get<double>(), 1e-8);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model->parameters())
    gradients.push_back(parameter.grad());
  expect_near_reference(norms_of(gradients), entry["gradient_norms"], 1e-7, 1e-7);
  std::vector<double> sums;
  for (const at::Tensor& buffer : model->buffers())
    sums.push_back(buffer.to(at::kDouble).sum().item<double>());
  expect_near_reference(sums, entry["buffer_sums"], 1e-7, 1e-7);
}

TEST(UNet, RefusesSizesThatItCannotHalve) {
  const recipes::Component spec{"unet", {{"width", 4}, {"depth", 3}, {"classes", 2}}};
  const auto odd = make_model(spec, {.channels = 3, .height = 24, .width = 20});
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().message(), HasSubstr("height and width are multiples of 8"));
  EXPECT_TRUE(make_model(spec, {.channels = 3, .height = 24, .width = 8}));
}

class MaskLoss : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(All, MaskLoss, testing::Range<std::size_t>(2, 10));

TEST_P(MaskLoss, IsPyTorchs) {
  const Json& entry = entries().at(GetParam());
  const Json& parameters = entry["parameters"];
  SCOPED_TRACE(parameters.dump());
  at::Tensor logits = at::empty({3, 4, 4, 5});
  fill(logits, kLogits, 3.0);
  logits.requires_grad_();
  at::Tensor masks = masks_of({3, 4, 5}, 4);
  masks[2].masked_fill_(masks[2].eq(1), 0);
  const Loss kind = value_of(loss_from(parameters["type"]));
  const at::Tensor loss =
      loss_of(kind, logits, masks, value_of(loss_options_from(parameters, 4, at::kCPU)));
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), entry["loss"].get<double>(), 1e-6);
  expect_near_reference(numbers_of(logits.grad()), entry["gradient"], 1e-6, 1e-6);
}

// Pixels that do not count have no gradient, and change nothing.
TEST(MaskLosses, LeaveOutWhatDoesNotCount) {
  for (const Loss kind : {Loss::cross_entropy, Loss::dice, Loss::dice_ce}) {
    at::Tensor logits = at::empty({1, 3, 4, 4});
    fill(logits, kLogits);
    at::Tensor masks = at::ones({1, 4, 4}, at::kLong);
    masks.select(1, 0).fill_(static_cast<std::int64_t>(input::kNoClass));
    const double before = loss_of(kind, logits, masks).item<double>();
    logits.select(2, 0).fill_(7.0);
    logits.requires_grad_();
    const at::Tensor after = loss_of(kind, logits, masks);
    EXPECT_NEAR(after.item<double>(), before, 1e-6);
    after.backward();
    EXPECT_EQ(logits.grad().select(2, 0).abs().sum().item<double>(), 0.0);
    EXPECT_GT(logits.grad().abs().sum().item<double>(), 0.0);
  }
}

TEST(MaskLosses, OfNoPixelThatCountsChangeNothing) {
  const at::Tensor masks =
      at::full({2, 4, 4}, static_cast<std::int64_t>(input::kNoClass), at::kLong);
  at::Tensor images = at::empty({2, 1, 4, 4});
  fill(images, kLogits);
  const LossOptions weighted{.class_weights = at::tensor(std::vector<float>{1.0F, 2.0F, 0.5F})};
  const LossOptions both{.label_smoothing = 0.1, .class_weights = weighted.class_weights};
  for (const Loss kind : {Loss::cross_entropy, Loss::dice_ce}) {
    for (const LossOptions& options :
         {LossOptions{}, LossOptions{.label_smoothing = 0.1}, weighted, both}) {
      at::Tensor weight = at::ones({3, 1, 1, 1}).requires_grad_();
      const at::Tensor loss = loss_of(kind, at::conv2d(images, weight), masks, options);
      EXPECT_EQ(loss.item<double>(), 0.0);
      loss.backward();
      const at::NoGradGuard no_grad;
      weight.sub_(weight.grad(), 0.1);
      EXPECT_TRUE(at::equal(weight, at::ones({3, 1, 1, 1})));
    }
  }
}

}  // namespace
}  // namespace autotuned::trainer
