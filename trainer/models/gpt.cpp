// SPDX-License-Identifier: Apache-2.0
// GPT-2 as nanoGPT builds it: architecture, names, initial values, and the order in which random numbers are drawn for
// them.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"
#include "trainer/models/layers.hpp"

namespace autotuned::trainer {
namespace {

constexpr double kGptNormEpsilon = 1e-5;
constexpr std::int64_t kGptMlpRatio = 4;

struct GptShape {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t context = 0;
  std::int64_t vocabulary = 0;
  double dropout = 0.0;
  bool has_bias = true;
  bool is_tied = true;
};

torch::nn::Linear gpt_linear(std::int64_t from, std::int64_t to, bool has_bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(has_bias));
}

// LibTorch's own has a bias always.
class GptLayerNorm final : public torch::nn::Module {
 public:
  GptLayerNorm(std::int64_t width, bool has_bias)
      : weight_(register_parameter("weight", at::ones({width}))) {
    if (has_bias) bias_ = register_parameter("bias", at::zeros({width}));
  }

  at::Tensor forward(const at::Tensor& x) const {
    return at::layer_norm(x, weight_.sizes(), weight_,
                          bias_.defined() ? std::optional<at::Tensor>(bias_) : std::nullopt,
                          kGptNormEpsilon);
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;  // undefined: none
};

class GptAttention final : public torch::nn::Module {
 public:
  explicit GptAttention(const GptShape& shape)
      : heads_(shape.heads),
        dropout_(shape.dropout),
        c_attn_(
            register_module("c_attn", gpt_linear(shape.width, 3 * shape.width, shape.has_bias))),
        c_proj_(register_module("c_proj", gpt_linear(shape.width, shape.width, shape.has_bias))) {}

  at::Tensor forward(const at::Tensor& x) {
    const std::int64_t samples = x.size(0);
    const std::int64_t tokens = x.size(1);
    const std::int64_t width = x.size(2);
    const std::vector<at::Tensor> qkv = call(c_attn_, x).split(width, 2);
    const auto in_heads = [&](const at::Tensor& part) {
      return part.view({samples, tokens, heads_, width / heads_}).transpose(1, 2);
    };
    const at::Tensor mixed = at::scaled_dot_product_attention(
        in_heads(qkv[0]), in_heads(qkv[1]), in_heads(qkv[2]), /*attn_mask=*/{},
        is_training() ? dropout_ : 0.0, /*is_causal=*/true);
    const at::Tensor joined = mixed.transpose(1, 2).reshape({samples, tokens, width});
    return at::dropout(call(c_proj_, joined), dropout_, is_training());
  }

 private:
  std::int64_t heads_;
  double dropout_;
  torch::nn::Linear c_attn_;
  torch::nn::Linear c_proj_;
};

class GptMlp final : public torch::nn::Module {
 public:
  explicit GptMlp(const GptShape& shape)
      : dropout_(shape.dropout),
        c_fc_(register_module("c_fc",
                              gpt_linear(shape.width, kGptMlpRatio * shape.width, shape.has_bias))),
        c_proj_(register_module(
            "c_proj", gpt_linear(kGptMlpRatio * shape.width, shape.width, shape.has_bias))) {}

  at::Tensor forward(const at::Tensor& x) {
    return at::dropout(call(c_proj_, at::gelu(call(c_fc_, x))), dropout_, is_training());
  }

 private:
  double dropout_;
  torch::nn::Linear c_fc_;
  torch::nn::Linear c_proj_;
};

class GptBlock final : public torch::nn::Module {
 public:
  explicit GptBlock(const GptShape& shape)
      : ln_1_(register_module("ln_1", std::make_shared<GptLayerNorm>(shape.width, shape.has_bias))),
        attn_(register_module("attn", std::make_shared<GptAttention>(shape))),
        ln_2_(register_module("ln_2", std::make_shared<GptLayerNorm>(shape.width, shape.has_bias))),
        mlp_(register_module("mlp", std::make_shared<GptMlp>(shape))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor attended = x + call(attn_, call(ln_1_, x));
    return attended + call(mlp_, call(ln_2_, attended));
  }

 private:
  std::shared_ptr<GptLayerNorm> ln_1_;
  std::shared_ptr<GptAttention> attn_;
  std::shared_ptr<GptLayerNorm> ln_2_;
  std::shared_ptr<GptMlp> mlp_;
};

// A linear layer without a bias. Tied, its weight is a parameter of another module.
class GptHead final : public torch::nn::Module {
 public:
  explicit GptHead(at::Tensor weight, bool is_tied)
      : weight_(is_tied ? std::move(weight) : register_parameter("weight", std::move(weight))) {}

  at::Tensor forward(const at::Tensor& x) const { return at::linear(x, weight_); }
  [[nodiscard]] const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

class Gpt final : public Model {
 public:
  explicit Gpt(const GptShape& shape)
      : Model(shape.vocabulary), dropout_(shape.dropout), is_tied_(shape.is_tied) {
    const auto transformer = register_module("transformer", std::make_shared<torch::nn::Module>());
    wte_ = transformer->register_module("wte", torch::nn::Embedding(shape.vocabulary, shape.width));
    wpe_ = transformer->register_module("wpe", torch::nn::Embedding(shape.context, shape.width));
    const auto blocks = transformer->register_module("h", std::make_shared<torch::nn::Module>());
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      blocks_.push_back(
          blocks->register_module(std::to_string(i), std::make_shared<GptBlock>(shape)));
    }
    ln_f_ = transformer->register_module(
        "ln_f", std::make_shared<GptLayerNorm>(shape.width, shape.has_bias));
    // Made also where it is tied: it draws random numbers.
    const torch::nn::Linear last = gpt_linear(shape.width, shape.vocabulary, /*has_bias=*/false);
    lm_head_ = register_module(
        "lm_head", std::make_shared<GptHead>(is_tied_ ? wte_->weight : last->weight, is_tied_));
    initialise(shape.layers);
  }

  // Logits (samples, tokens, vocabulary) of tokens int64 (samples, tokens).
  at::Tensor forward(const at::Tensor& tokens) override {
    const at::Tensor positions = wpe_->weight.narrow(0, 0, tokens.size(1));
    at::Tensor x = at::dropout(call(wte_, tokens) + positions, dropout_, is_training());
    for (const std::shared_ptr<GptBlock>& block : blocks_)
      x = call(block, x);
    return call(lm_head_, call(ln_f_, x));
  }

  [[nodiscard]] std::vector<TiedName> tied_names() const override {
    if (!is_tied_) return {};
    return {{.name = "lm_head.weight", .of = "transformer.wte.weight"}};
  }

 private:
  // A tied weight is drawn twice, as in nanoGPT.
  void initialise(std::int64_t layers) {
    const at::NoGradGuard no_grad;
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* const one = module->as<torch::nn::LinearImpl>()) {
        one->weight.normal_(0.0, kWeightDeviation);
        if (one->bias.defined()) one->bias.zero_();
      } else if (auto* const embedding = module->as<torch::nn::EmbeddingImpl>()) {
        embedding->weight.normal_(0.0, kWeightDeviation);
      } else if (auto* const head = module->as<GptHead>()) {
        head->weight().normal_(0.0, kWeightDeviation);
      }
    }
    const double of_projections = kWeightDeviation / std::sqrt(2.0 * static_cast<double>(layers));
    for (const auto& parameter : named_parameters()) {
      if (parameter.key().ends_with("c_proj.weight"))
        parameter.value().normal_(0.0, of_projections);
    }
  }

  double dropout_;
  bool is_tied_;
  torch::nn::Embedding wte_ = nullptr;
  torch::nn::Embedding wpe_ = nullptr;
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  std::shared_ptr<GptLayerNorm> ln_f_;
  std::shared_ptr<GptHead> lm_head_;
};

}  // namespace

MadeModel make_gpt(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const GptShape shape{.layers = parameters.integer("layers"),
                       .heads = parameters.integer("heads"),
                       .width = parameters.integer("width"),
                       .context = parameters.integer("context"),
                       .vocabulary = parameters.integer("vocabulary"),
                       .dropout = parameters.number("dropout"),
                       .has_bias = parameters.flag("bias"),
                       .is_tied = parameters.flag("tied")};
  if (parameters.error()) return tl::unexpected(*parameters.error());
  if (shape.width % shape.heads != 0) {
    return fail(ErrorKind::invalid,
                "width, " + std::to_string(shape.width) + ", must be a multiple of heads, " +
                    std::to_string(shape.heads),
                "model gpt", "change one of them");
  }
  // The last token of a sample is a target only.
  if (sample.width - 1 > shape.context) {
    return fail(ErrorKind::invalid,
                "it takes blocks of at most " + std::to_string(shape.context) +
                    " tokens, and those of the data have " + std::to_string(sample.width - 1),
                "model gpt", "leave context of the model out, or shorten that of the data");
  }
  return std::make_shared<Gpt>(shape);
}

}  // namespace autotuned::trainer
