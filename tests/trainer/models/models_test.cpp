// SPDX-License-Identifier: Apache-2.0
// The models against PyTorch's, torchvision's and timm's.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/function.h>

#include "tests/trainer/models/formula.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/common/precision.hpp"
#include "trainer/models/layers.hpp"
#include "trainer/models/loss.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

input::SampleShape shape_of(const Json& sample) {
  return {.channels = sample[0], .height = sample[1], .width = sample[2]};
}

recipes::Component spec_of(const Json& model) {
  recipes::Component spec{model["type"], model};
  spec.parameters.erase("type");
  return spec;
}

std::shared_ptr<Model> made(const Json& model, const Json& sample) {
  at::manual_seed(3);
  return value_of(make_model(spec_of(model), shape_of(sample)));
}

const std::vector<Json>& entries() {
  static const std::vector<Json> read = [] {
    std::vector<Json> all = reference("models.json");
    for (const Json& entry : reference("plain_models.json"))
      all.push_back(entry);
    return all;
  }();
  return read;
}

std::vector<std::size_t> entries_with(const char* field) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < entries().size(); ++i) {
    if (entries()[i].contains(field)) indices.push_back(i);
  }
  return indices;
}

std::string name_of(const testing::TestParamInfo<std::size_t>& one) {
  return entries()[one.param]["model"]["type"].get<std::string>() + std::to_string(one.param);
}

class ReferenceModel : public testing::TestWithParam<std::size_t> {};
class ReferenceOutput : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(All, ReferenceModel, testing::ValuesIn(entries_with("names")), name_of);
// Those that are small enough for a quick test.
INSTANTIATE_TEST_SUITE_P(Small, ReferenceOutput, testing::ValuesIn(entries_with("eval_output")),
                         name_of);

TEST_P(ReferenceModel, HasTheNamesAndTheInitialState) {
  const Json& entry = entries()[GetParam()];
  const auto model = made(entry["model"], entry["sample"]);
  ASSERT_TRUE(model);
  std::int64_t count = 0;
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : model->named_parameters()) {
    names.push_back(parameter.key() + " " + shape_in_reference(parameter.value()));
    parameters.push_back(parameter.value());
    count += parameter.value().numel();
  }
  EXPECT_EQ(count, entry["parameters"]);
  EXPECT_EQ(Json(names), entry["names"]);
  EXPECT_EQ(Json(model->named_buffers().keys()), entry["buffers"]);
  expect_near_reference(norms_of(parameters), entry["initial_norms"], 1e-5, 1e-9);
}

TEST_P(ReferenceOutput, IsTheSame) {
  const Json& entry = entries()[GetParam()];
  const auto model = made(entry["model"], entry["sample"]);
  ASSERT_TRUE(model);
  // In double precision: what is left are differences of the mathematics.
  fill(*model);
  model->to(at::kDouble);
  const Json& sample = entry["sample"];
  const std::int64_t samples = entry["samples"];
  const at::Tensor images = images_of({samples, sample[0], sample[1], sample[2]}).to(at::kDouble);
  model->eval();
  {
    const at::NoGradGuard no_grad;
    const at::Tensor logits = model->forward(images);
    EXPECT_EQ(logits.sizes(), (at::IntArrayRef{samples, model->classes()}));
    expect_near_reference(numbers_of(logits), entry["eval_output"], 1e-8, 1e-8);
  }
  if (!entry.contains("loss")) return;

  model->train();
  at::manual_seed(5);
  const at::Tensor labels = at::arange(samples, at::kLong).remainder(model->classes());
  const at::Tensor loss = loss_of(Loss::cross_entropy, model->forward(images), labels);
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), entry["loss"].get<double>(), 1e-8);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model->parameters())
    gradients.push_back(parameter.grad());
  expect_near_reference(norms_of(gradients), entry["gradient_norms"], 1e-7, 1e-8);
  std::vector<double> sums;
  for (const at::Tensor& buffer : model->buffers())
    sums.push_back(buffer.to(at::kDouble).sum().item<double>());
  expect_near_reference(sums, entry["buffer_sums"], 1e-7, 1e-7);
}

Json convnext(double stochastic_depth, int classes = 4) {
  return {{"type", "convnext_tiny"}, {"stochastic_depth", stochastic_depth}, {"classes", classes}};
}

Json efficientnet(double dropout, double stochastic_depth, int classes = 4) {
  return {{"type", "efficientnet_b0"},
          {"dropout", dropout},
          {"stochastic_depth", stochastic_depth},
          {"classes", classes}};
}

Json mobilenet(const std::string& size, double dropout, int classes = 4) {
  return {{"type", "mobilenet_v3_" + size}, {"dropout", dropout}, {"classes", classes}};
}

TEST(Model, HasAsManyParametersAsTorchvisionPublishes) {
  struct Published {
    Json model;
    std::int64_t parameters;
    std::size_t tensors;
  };
  for (const Published& published :
       {Published{{{"type", "resnet34"}, {"classes", 1000}}, 21'797'672, 110},
        Published{convnext(0.1, 1000), 28'589'128, 182},
        Published{efficientnet(0.2, 0.2, 1000), 5'288'548, 213},
        Published{mobilenet("large", 0.2, 1000), 5'483'032, 174},
        Published{mobilenet("small", 0.2, 1000), 2'542'856, 142}}) {
    SCOPED_TRACE(published.model.dump());
    const auto model = made(published.model, {3, 224, 224});
    ASSERT_TRUE(model);
    std::int64_t count = 0;
    for (const at::Tensor& parameter : model->parameters())
      count += parameter.numel();
    EXPECT_EQ(count, published.parameters);
    EXPECT_EQ(model->parameters().size(), published.tensors);
  }
}

// Down the gradient, which reaches every parameter, by as much as would take a hundredth off the loss of a plane.
TEST(Model, LosesLossByAStep) {
  for (const Json& model :
       {Json{{"type", "resnet34"}, {"classes", 4}}, convnext(0.0), efficientnet(0.0, 0.0),
        mobilenet("large", 0.0), mobilenet("small", 0.0)}) {
    SCOPED_TRACE(model.dump());
    const auto learning = made(model, {3, 64, 64});
    ASSERT_TRUE(learning);
    const at::Tensor images = images_of({4, 3, 64, 64});
    const at::Tensor labels = at::arange(4, at::kLong);
    const at::Tensor before = loss_of(Loss::cross_entropy, learning->forward(images), labels);
    before.backward();
    double squares = 0.0;
    for (const at::Tensor& parameter : learning->parameters()) {
      ASSERT_TRUE(parameter.grad().defined());
      squares += parameter.grad().square().sum().item<double>();
    }
    ASSERT_GT(squares, 0.0);
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : learning->parameters())
      parameter.sub_(parameter.grad(), 0.01 * before.item<double>() / squares);
    const at::Tensor after = loss_of(Loss::cross_entropy, learning->forward(images), labels);
    EXPECT_LT(after.item<double>(), before.item<double>());
  }
}

TEST(Model, DrawsNothingInEvaluation) {
  for (const Json& model :
       {convnext(0.9), efficientnet(0.5, 0.9), mobilenet("large", 0.9), mobilenet("small", 0.9)}) {
    SCOPED_TRACE(model.dump());
    const auto drawing = made(model, {3, 64, 64});
    ASSERT_TRUE(drawing);
    fill(*drawing);
    const at::NoGradGuard no_grad;
    const at::Tensor images = images_of({2, 3, 64, 64});
    drawing->eval();
    const at::Tensor first = drawing->forward(images);
    EXPECT_TRUE(at::equal(drawing->forward(images), first));
    drawing->train();
    const at::Tensor drawn = drawing->forward(images);
    EXPECT_FALSE(at::equal(drawing->forward(images), drawn));
  }
}

// A sample keeps what a block adds, scaled up, or loses all of it.
TEST(StochasticDepth, LeavesOutWholeSamplesAndKeepsTheMean) {
  StochasticDepth depth(0.25);
  const at::Tensor x = at::ones({4000, 2, 3, 3}, at::kDouble);
  at::manual_seed(7);
  const at::Tensor y = depth.forward(x);
  const at::Tensor first = y.flatten(1).select(1, 0);
  EXPECT_TRUE(at::equal(y, first.reshape({4000, 1, 1, 1}).expand_as(y)));
  EXPECT_TRUE(first.eq(0.0).logical_or(first.eq(1.0 / 0.75)).all().item<bool>());
  EXPECT_NEAR(first.mean().item<double>(), 1.0, 0.05);
  depth.eval();
  EXPECT_TRUE(at::equal(depth.forward(x), x));
}

Json small_vit(double patch_dropout, const std::string& pool = "token") {
  return {{"type", "vit"}, {"size", "tiny"}, {"patch", 8},
          {"depth", 0},    {"embed", 8},     {"heads", 2},
          {"pool", pool},  {"classes", 4},   {"patch_dropout", patch_dropout}};
}

bool uses(const std::shared_ptr<torch::autograd::Node>& node, const std::string& name) {
  if (node == nullptr) return false;
  if (node->name().find(name) != std::string::npos) return true;
  for (const auto& edge : node->next_edges()) {
    if (uses(edge.function, name)) return true;
  }
  return false;
}

// The operator that can be exchanged for a faster one.
TEST(Vit, DropsPatchesByGatherAndOnlyInTraining) {
  const auto model = made(small_vit(0.5), {3, 32, 32});
  const auto whole = made(small_vit(0.0), {3, 32, 32});
  const at::Tensor images = images_of({2, 3, 32, 32});
  EXPECT_TRUE(uses(model->forward(images).grad_fn(), "GatherBackward"));
  EXPECT_FALSE(uses(whole->forward(images).grad_fn(), "GatherBackward"));
  model->eval();
  whole->eval();
  EXPECT_TRUE(at::equal(model->forward(images), whole->forward(images)));
}

// Without blocks and with the mean as the pool, the head sees the mean of the kept patches: what a
// position embedding of one patch adds shows whether that patch was kept.
TEST(Vit, KeepsARandomHalfOfThePatchesOnce) {
  const auto model = made(small_vit(0.5, "avg"), {3, 32, 32});
  auto parameters = model->named_parameters();
  const at::NoGradGuard no_grad;
  parameters["patch_embed.proj.weight"].zero_();
  parameters["patch_embed.proj.bias"].zero_();
  // Patch p stands for 4^(p % 4) in column p / 4, so that a sum of half of them tells which.
  at::Tensor& positions = parameters["pos_embed"];
  positions.zero_();
  for (std::int64_t p = 0; p < 16; ++p)
    positions[0][1 + p][p / 4] = std::pow(4.0, p % 4);
  parameters["fc_norm.weight"].fill_(1.0);

  at::manual_seed(11);
  const at::Tensor noise = at::randn({4, 16});
  at::manual_seed(11);
  const at::Tensor logits = model->forward(images_of({4, 3, 32, 32}));
  // The same by hand.
  const at::Tensor kept = at::argsort(noise).narrow(1, 0, 8);
  for (std::int64_t sample = 0; sample < 4; ++sample) {
    const at::Tensor indices = kept[sample];
    EXPECT_EQ(std::get<0>(at::_unique(indices)).numel(), 8);
    const at::Tensor mean = positions[0].index_select(0, indices + 1).mean(0);
    const at::Tensor normal =
        at::layer_norm(mean, {8}, parameters["fc_norm.weight"], parameters["fc_norm.bias"], 1e-6);
    const at::Tensor expected =
        at::linear(normal, parameters["head.weight"], parameters["head.bias"]);
    EXPECT_TRUE(at::allclose(logits[sample], expected, 1e-4, 1e-6)) << sample;
  }
}

TEST(Paced, LearnsFromEveryPixel) {
  const auto model = made({{"type", "paced"}, {"step_ms", 0.0}, {"classes", 3}}, {2, 4, 4});
  const at::Tensor images = images_of({2, 2, 4, 4});
  const auto gradient_of = [&](const at::Tensor& on) {
    model->zero_grad();
    model->forward(on).square().sum().backward();
    return model->named_parameters()["linear.weight"].grad().clone();
  };
  const at::Tensor before = gradient_of(images);
  at::Tensor other = images.clone();
  other[1][1][3][2] += 0.25;
  EXPECT_FALSE(at::equal(gradient_of(other), before));
}

TEST(Model, WorksInChannelsLastUnderBf16) {
  for (const Json& model : {Json{{"type", "simple_cnn"}, {"classes", 4}},
                            Json{{"type", "pooling_cnn"}, {"hidden_channels", 4}, {"classes", 4}},
                            Json{{"type", "resnet18"}, {"classes", 4}}, small_vit(0.5),
                            convnext(0.5), efficientnet(0.2, 0.5), mobilenet("small", 0.2),
                            Json{{"type", "paced"}, {"step_ms", 0.0}, {"classes", 4}}}) {
    SCOPED_TRACE(model.dump());
    const auto made_model = made(model, {3, 32, 32});
    // Two samples: a CPU without AVX-512 has only slow convolutions in bfloat16.
    const at::Tensor images = images_of({2, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor labels = at::arange(2, at::kLong);
    const AutocastGuard autocast(at::kCPU, at::kBFloat16);
    const at::Tensor logits = made_model->forward(images);
    EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
    const at::Tensor loss = loss_of(Loss::cross_entropy, logits, labels);
    loss.backward();
    EXPECT_TRUE(at::isfinite(loss).item<bool>());
  }
}

struct Unfit {
  Json model;
  Json sample;
  std::string message;
};

TEST(Model, NamesSamplesThatDoNotFit) {
  const Json vit = small_vit(0.0);
  for (const Unfit& unfit : {
           Unfit{{{"type", "simple_cnn"}, {"classes", 4}}, {3, 8, 32}, "at least 16 x 16"},
           Unfit{{{"type", "pooling_cnn"}, {"hidden_channels", 4}, {"classes", 4}},
                 {3, 48, 48},
                 "power of two, but they are 3 x 48 x 48"},
           Unfit{{{"type", "pooling_cnn"}, {"hidden_channels", 4}, {"classes", 4}},
                 {3, 32, 16},
                 "square samples"},
           Unfit{{{"type", "resnet18"}, {"classes", 4}}, {1, 32, 32}, "3 channels"},
           Unfit{convnext(0.1), {1, 32, 32}, "3 channels"},
           Unfit{convnext(0.1), {3, 31, 32}, "at least 32 x 32"},
           Unfit{efficientnet(0.2, 0.2), {1, 32, 32}, "3 channels"},
           Unfit{mobilenet("small", 0.2), {1, 32, 32}, "3 channels"},
           Unfit{vit, {1, 36, 32}, "multiples of the patch, 8"},
           Unfit{vit, {3, 32, 36}, "multiples of the patch, 8"},
       }) {
    const auto refused = make_model(spec_of(unfit.model), shape_of(unfit.sample));
    ASSERT_FALSE(refused) << unfit.model;
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
    EXPECT_THAT(refused.error().message(), HasSubstr(unfit.message));
    EXPECT_THAT(refused.error().message(), HasSubstr("model " + std::string(unfit.model["type"])));
    EXPECT_NE(refused.error().remedy, "");
  }
  Json uneven = vit;
  uneven["heads"] = 3;
  EXPECT_THAT(
      make_model(spec_of(uneven), {.channels = 3, .height = 32, .width = 32}).error().message(),
      HasSubstr("multiple of heads"));
  EXPECT_EQ(
      make_model({"lstm", Json::object()}, {.channels = 3, .height = 32, .width = 32}).error().kind,
      ErrorKind::unsupported);
}

// Whatever happens in an evaluation, training goes on in training mode.
TEST(Learner, StillTrainsAfterAFailedEvaluation) {
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"resnet18", {{"classes", 4}}};
  const auto learner =
      value_of(Learner::create(recipe, {.channels = 3, .height = 32, .width = 32}, at::kCPU));
  ASSERT_TRUE(learner);
  DeviceBatch batch;
  batch.images = images_of({2, 1, 32, 32});
  batch.labels = at::zeros({2}, at::kLong);
  batch.samples = 2;
  EXPECT_THROW((void)learner->score(batch), c10::Error);
  batch.images = images_of({2, 3, 32, 32});
  (void)learner->step(batch, 0.1);
  const Checkpoint checkpoint = learner->capture();
  for (const auto& [name, buffer] : checkpoint.buffers) {
    if (name != "bn1.num_batches_tracked") continue;
    EXPECT_EQ(buffer.item<std::int64_t>(), 1);
  }
}

TEST(Loss, MseIsTheMeanOverSamplesAndOutputs) {
  at::Tensor logits = images_of({3, 4}).set_requires_grad(true);
  const at::Tensor labels = at::tensor(std::vector<std::int64_t>{2, 0, 3});
  const at::Tensor loss = loss_of(Loss::mse, logits, labels);
  double sum = 0.0;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      const double target = labels[i].item<std::int64_t>() == j ? 1.0 : 0.0;
      sum += std::pow(logits[i][j].item<double>() - target, 2.0);
    }
  }
  EXPECT_NEAR(loss.item<double>(), sum / 12.0, 1e-6);
  loss.backward();
  EXPECT_NEAR(logits.grad()[0][2].item<double>(), 2.0 * (logits[0][2].item<double>() - 1.0) / 12.0,
              1e-6);
}

// As PyTorch's documentation of CrossEntropyLoss writes them: the target of class c is (1 - s) y_c + s / C, each log
// probability counts with the weight of its class, and the sum is divided by the weights of the labels.
TEST(Loss, SmoothedAndWeightedCrossEntropyIsPyTorchs) {
  const at::Tensor logits = images_of({3, 4});
  const std::vector<std::int64_t> classes = {2, 0, 3};
  const at::Tensor labels = at::tensor(classes);
  const std::vector<double> weights = {1.0, 2.0, 0.5, 3.0};
  for (const double smoothing : {0.0, 0.2}) {
    for (const bool is_weighted : {false, true}) {
      const at::Tensor logs = logits.to(at::kDouble).log_softmax(1);
      double sum = 0.0;
      double total = 0.0;
      for (std::int64_t i = 0; i < 3; ++i) {
        const auto label = classes[static_cast<std::size_t>(i)];
        total += is_weighted ? weights[static_cast<std::size_t>(label)] : 1.0;
        for (std::int64_t c = 0; c < 4; ++c) {
          const double target = (label == c ? 1.0 - smoothing : 0.0) + smoothing / 4.0;
          const double weight = is_weighted ? weights[static_cast<std::size_t>(c)] : 1.0;
          sum -= weight * target * logs[i][c].item<double>();
        }
      }
      LossOptions options{.label_smoothing = smoothing};
      if (is_weighted) options.class_weights = at::tensor(weights).to(at::kFloat);
      EXPECT_NEAR(loss_of(Loss::cross_entropy, logits, labels, options).item<double>(), sum / total,
                  1e-6)
          << smoothing << is_weighted;
    }
  }
}

TEST(Loss, BceIsTheMeanOverSamplesAndOutputs) {
  const at::Tensor logits = images_of({3, 4});
  const std::vector<std::int64_t> classes = {2, 0, 3};
  for (const double smoothing : {0.0, 0.2}) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t c = 0; c < 4; ++c) {
        const bool is_label = classes[static_cast<std::size_t>(i)] == c;
        const double target = (is_label ? 1.0 - smoothing : 0.0) + smoothing / 4.0;
        const double x = logits[i][c].item<double>();
        const double p = 1.0 / (1.0 + std::exp(-x));
        sum -= target * std::log(p) + (1.0 - target) * std::log(1.0 - p);
      }
    }
    const LossOptions options{.label_smoothing = smoothing};
    EXPECT_NEAR(loss_of(Loss::bce, logits, at::tensor(classes), options).item<double>(), sum / 12.0,
                1e-6);
  }
}

TEST(Loss, IsFloat32UnderAutocast) {
  const at::Tensor logits = images_of({3, 4}).to(at::kBFloat16);
  const at::Tensor labels = at::tensor(std::vector<std::int64_t>{2, 0, 3});
  const AutocastGuard autocast(at::kCPU, at::kBFloat16);
  for (const Loss loss : {Loss::cross_entropy, Loss::bce, Loss::mse}) {
    const at::Tensor value = loss_of(loss, logits, labels);
    EXPECT_EQ(value.scalar_type(), at::kFloat);
    EXPECT_NEAR(value.item<double>(), loss_of(loss, logits.to(at::kFloat), labels).item<double>(),
                1e-6);
  }
  EXPECT_EQ(loss_from("hinge").error().kind, ErrorKind::unsupported);
}

}  // namespace
}  // namespace autotuned::trainer
