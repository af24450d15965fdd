// SPDX-License-Identifier: Apache-2.0
// Vision Transformers as timm builds them: architecture, names, initial values, and the order in which
// random numbers are drawn for them.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <vector>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"
#include "trainer/models/layers.hpp"

namespace autotuned::trainer {
namespace {

constexpr double kClassTokenDeviation = 1e-6;
constexpr std::int64_t kMlpRatio = 4;

class Attention final : public torch::nn::Module {
 public:
  Attention(std::int64_t width, std::int64_t heads)
      : heads_(heads),
        qkv_(register_module("qkv", torch::nn::Linear(width, width * 3))),
        proj_(register_module("proj", torch::nn::Linear(width, width))) {}

  at::Tensor forward(const at::Tensor& x) {
    const std::int64_t samples = x.size(0);
    const std::int64_t tokens = x.size(1);
    const std::int64_t width = x.size(2);
    const std::vector<at::Tensor> qkv = call(qkv_, x)
                                            .reshape({samples, tokens, 3, heads_, width / heads_})
                                            .permute({2, 0, 3, 1, 4})
                                            .unbind(0);
    const at::Tensor mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
    return call(proj_, mixed.transpose(1, 2).reshape({samples, tokens, width}));
  }

 private:
  std::int64_t heads_;
  torch::nn::Linear qkv_;
  torch::nn::Linear proj_;
};

class FeedForward final : public torch::nn::Module {
 public:
  explicit FeedForward(std::int64_t width)
      : fc1_(register_module("fc1", torch::nn::Linear(width, width * kMlpRatio))),
        fc2_(register_module("fc2", torch::nn::Linear(width * kMlpRatio, width))) {}

  at::Tensor forward(const at::Tensor& x) { return call(fc2_, at::gelu(call(fc1_, x))); }

 private:
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
};

class EncoderBlock final : public torch::nn::Module {
 public:
  EncoderBlock(std::int64_t width, std::int64_t heads)
      : norm1_(register_module("norm1", layer_norm(width))),
        attn_(register_module("attn", std::make_shared<Attention>(width, heads))),
        norm2_(register_module("norm2", layer_norm(width))),
        mlp_(register_module("mlp", std::make_shared<FeedForward>(width))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor attended = x + call(attn_, call(norm1_, x));
    return attended + call(mlp_, call(norm2_, attended));
  }

 private:
  torch::nn::LayerNorm norm1_;
  std::shared_ptr<Attention> attn_;
  torch::nn::LayerNorm norm2_;
  std::shared_ptr<FeedForward> mlp_;
};

// A random part of each sample's patches, in random order; the class token always stays.
class PatchDropout final : public torch::nn::Module {
 public:
  explicit PatchDropout(double ratio) : ratio_(ratio) {}

  at::Tensor forward(const at::Tensor& x) const {
    if (!is_training()) return x;
    const at::Tensor patches = x.slice(1, 1);
    const auto kept =
        static_cast<std::int64_t>(static_cast<double>(patches.size(1)) * (1.0 - ratio_));
    const at::Tensor noise =
        at::randn({patches.size(0), patches.size(1)}, at::device(x.device()).dtype(at::kFloat));
    const at::Tensor index = at::argsort(noise).narrow(1, 0, std::max<std::int64_t>(1, kept));
    const at::Tensor expanded = index.unsqueeze(-1).expand({-1, -1, patches.size(2)});
    return at::cat({x.narrow(1, 0, 1), at::gather(patches, 1, expanded)}, 1);
  }

 private:
  double ratio_;
};

struct Shape {
  std::int64_t embed = 0;
  std::int64_t depth = 0;
  std::int64_t heads = 0;
  std::int64_t patch = 16;
  bool pools_average = false;
  double patch_dropout = 0.0;
};

class Vit final : public Model {
 public:
  Vit(input::SampleShape sample, const Shape& shape, std::int64_t classes)
      : Model(classes), shape_(shape) {
    const auto patch_embed = register_module("patch_embed", std::make_shared<torch::nn::Module>());
    patches_ = patch_embed->register_module(
        "proj",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(sample.channels, shape.embed, shape.patch)
                              .stride(shape.patch)));
    const std::int64_t tokens = 1 + (sample.height / shape.patch) * (sample.width / shape.patch);
    class_token_ = register_parameter("cls_token", at::empty({1, 1, shape.embed}));
    positions_ = register_parameter("pos_embed", at::empty({1, tokens, shape.embed}));
    if (shape.patch_dropout > 0.0) {
      patch_dropout_ =
          register_module("patch_drop", std::make_shared<PatchDropout>(shape.patch_dropout));
    }
    const auto blocks = register_module("blocks", std::make_shared<torch::nn::Module>());
    for (std::int64_t i = 0; i < shape.depth; ++i) {
      blocks_.push_back(blocks->register_module(
          std::to_string(i), std::make_shared<EncoderBlock>(shape.embed, shape.heads)));
    }
    norm_ = register_module(shape.pools_average ? "fc_norm" : "norm", layer_norm(shape.embed));
    head_ = register_module("head", torch::nn::Linear(shape.embed, classes));
    initialise();
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = call(patches_, images).flatten(2).transpose(1, 2);
    x = at::cat({class_token_.expand({x.size(0), -1, -1}), x}, 1) + positions_;
    if (patch_dropout_ != nullptr) x = call(patch_dropout_, x);
    for (const std::shared_ptr<EncoderBlock>& block : blocks_)
      x = call(block, x);
    if (shape_.pools_average) {
      return call(head_, call(norm_, x.slice(1, 1).mean(1)));
    }
    return call(head_, call(norm_, x.select(1, 0)));
  }

 private:
  void initialise() {
    fill_normal(positions_, kWeightDeviation);
    {
      const at::NoGradGuard no_grad;
      class_token_.normal_(0.0, kClassTokenDeviation);
    }
    for (const auto& module : modules(/*include_self=*/false)) {
      auto* const linear = module->as<torch::nn::LinearImpl>();
      if (linear == nullptr) continue;
      fill_normal(linear->weight, kWeightDeviation);
      const at::NoGradGuard no_grad;
      linear->bias.zero_();
    }
  }

  Shape shape_;
  torch::nn::Conv2d patches_ = nullptr;
  at::Tensor class_token_;
  at::Tensor positions_;
  std::shared_ptr<PatchDropout> patch_dropout_;
  std::vector<std::shared_ptr<EncoderBlock>> blocks_;
  torch::nn::LayerNorm norm_ = nullptr;
  torch::nn::Linear head_ = nullptr;
};

Shape shape_of_size(const std::string& size) {
  if (size == "tiny") return {.embed = 192, .depth = 12, .heads = 3};
  if (size == "small") return {.embed = 384, .depth = 12, .heads = 6};
  return {.embed = 768, .depth = 12, .heads = 12};
}

}  // namespace

MadeModel make_vit(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  Shape shape = shape_of_size(parameters.text("size"));
  if (parameters.has("embed")) shape.embed = parameters.integer("embed");
  if (parameters.has("depth")) shape.depth = parameters.integer("depth");
  if (parameters.has("heads")) shape.heads = parameters.integer("heads");
  shape.patch = parameters.integer("patch");
  shape.pools_average = parameters.text("pool") == "avg";
  shape.patch_dropout = parameters.number("patch_dropout");
  const std::int64_t classes = parameters.integer("classes");
  if (parameters.error()) return tl::unexpected(*parameters.error());
  if (sample.height % shape.patch != 0 || sample.width % shape.patch != 0) {
    return unfit(spec.type,
                 "needs samples whose height and width are multiples of the patch, " +
                     std::to_string(shape.patch),
                 sample, "crop or resize them, or set patch of the model");
  }
  if (shape.embed % shape.heads != 0) {
    return fail(ErrorKind::invalid,
                "embed, " + std::to_string(shape.embed) + ", must be a multiple of heads, " +
                    std::to_string(shape.heads),
                "model vit", "change one of them");
  }
  return std::make_shared<Vit>(sample, shape, classes);
}

}  // namespace autotuned::trainer
