// SPDX-License-Identifier: Apache-2.0
// ConvNeXt-T as torchvision builds it: architecture, names, initial values, and the order in which random
// numbers are drawn for them.
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <array>
#include <vector>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"
#include "trainer/models/layers.hpp"

namespace autotuned::trainer {
namespace {

constexpr double kLayerScale = 1e-6;
constexpr int kMinSide = 32;  // of an image: it is divided by 4, and by 2 three times

struct Stage {
  std::int64_t width = 0;
  int blocks = 0;
};
constexpr std::array<Stage, 4> kStages = {Stage{96, 3}, Stage{192, 3}, Stage{384, 9},
                                          Stage{768, 3}};

at::Tensor channels_last_axis(const at::Tensor& x) {
  return x.permute({0, 2, 3, 1});
}

at::Tensor channels_second_axis(const at::Tensor& x) {
  return x.permute({0, 3, 1, 2});
}

// Over the channels of each pixel.
at::Tensor normalised(torch::nn::LayerNorm& norm, const at::Tensor& x) {
  return channels_second_axis(call(norm, channels_last_axis(x)));
}

class ConvNeXtBlock final : public torch::nn::Module {
 public:
  ConvNeXtBlock(std::int64_t width, double drop_ratio)
      : layer_scale_(register_parameter("layer_scale", at::full({width, 1, 1}, kLayerScale))) {
    const auto block = register_module("block", std::make_shared<torch::nn::Module>());
    depthwise_ = block->register_module(
        "0", torch::nn::Conv2d(torch::nn::Conv2dOptions(width, width, 7).padding(3).groups(width)));
    norm_ = block->register_module("2", layer_norm(width));
    widen_ = block->register_module("3", torch::nn::Linear(width, 4 * width));
    narrow_ = block->register_module("5", torch::nn::Linear(4 * width, width));
    depth_ = register_module("stochastic_depth", std::make_shared<StochasticDepth>(drop_ratio));
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor result = call(norm_, channels_last_axis(call(depthwise_, x)));
    result = call(narrow_, at::gelu(call(widen_, result)));
    result = call(depth_, layer_scale_.mul(channels_second_axis(result)));
    return result.add_(x);
  }

 private:
  at::Tensor layer_scale_;
  torch::nn::Conv2d depthwise_ = nullptr;
  torch::nn::LayerNorm norm_ = nullptr;
  torch::nn::Linear widen_ = nullptr;
  torch::nn::Linear narrow_ = nullptr;
  std::shared_ptr<StochasticDepth> depth_;
};

class ConvNext final : public Model {
 public:
  // The share of samples for which a block is left out rises with its depth, from 0 to `drop_ratio`.
  ConvNext(double drop_ratio, std::int64_t classes) : Model(classes) {
    const auto features = register_module("features", std::make_shared<torch::nn::Module>());
    const auto stem = features->register_module("0", std::make_shared<torch::nn::Module>());
    stem_ = stem->register_module(
        "0", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, kStages[0].width, 4).stride(4)));
    stem_norm_ = stem->register_module("1", layer_norm(kStages[0].width));
    int all_blocks = 0;
    for (const Stage& stage : kStages)
      all_blocks += stage.blocks;
    int done_blocks = 0;
    for (std::size_t i = 0; i < kStages.size(); ++i) {
      const Stage& stage = kStages[i];
      Halving halving;
      if (i > 0) {
        const auto module =
            features->register_module(std::to_string(2 * i), std::make_shared<torch::nn::Module>());
        const std::int64_t from = kStages[i - 1].width;
        halving.norm = module->register_module("0", layer_norm(from));
        halving.conv = module->register_module(
            "1", torch::nn::Conv2d(torch::nn::Conv2dOptions(from, stage.width, 2).stride(2)));
      }
      const auto module = features->register_module(std::to_string(2 * i + 1),
                                                    std::make_shared<torch::nn::Module>());
      std::vector<std::shared_ptr<ConvNeXtBlock>> blocks;
      for (int j = 0; j < stage.blocks; ++j, ++done_blocks) {
        const double ratio = drop_ratio * done_blocks / (all_blocks - 1.0);
        blocks.push_back(module->register_module(
            std::to_string(j), std::make_shared<ConvNeXtBlock>(stage.width, ratio)));
      }
      halvings_.push_back(halving);
      stages_.push_back(std::move(blocks));
    }
    const auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
    norm_ = classifier->register_module("0", layer_norm(kStages.back().width));
    head_ = classifier->register_module("2", torch::nn::Linear(kStages.back().width, classes));
    initialise();
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = normalised(stem_norm_, call(stem_, images));
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Halving& halving = halvings_[i];
      if (!halving.conv.is_empty()) x = call(halving.conv, normalised(halving.norm, x));
      for (const std::shared_ptr<ConvNeXtBlock>& block : stages_[i])
        x = call(block, x);
    }
    return call(head_, normalised(norm_, at::adaptive_avg_pool2d(x, {1, 1})).flatten(1));
  }

 private:
  // Before every stage but the first.
  struct Halving {
    torch::nn::LayerNorm norm = nullptr;
    torch::nn::Conv2d conv = nullptr;
  };

  void initialise() {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* const conv = module->as<torch::nn::Conv2dImpl>()) {
        fill_normal(conv->weight, kWeightDeviation);
        torch::nn::init::zeros_(conv->bias);
      } else if (auto* const linear = module->as<torch::nn::LinearImpl>()) {
        fill_normal(linear->weight, kWeightDeviation);
        torch::nn::init::zeros_(linear->bias);
      }
    }
  }

  torch::nn::Conv2d stem_ = nullptr;
  torch::nn::LayerNorm stem_norm_ = nullptr;
  std::vector<Halving> halvings_;
  std::vector<std::vector<std::shared_ptr<ConvNeXtBlock>>> stages_;
  torch::nn::LayerNorm norm_ = nullptr;
  torch::nn::Linear head_ = nullptr;
};

}  // namespace

MadeModel make_convnext(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const double drop_ratio = parameters.number("stochastic_depth");
  const std::int64_t classes = parameters.integer("classes");
  if (auto error = colour_model_error(parameters, spec, sample)) {
    return tl::unexpected(*std::move(error));
  }
  if (sample.height < kMinSide || sample.width < kMinSide) {
    return unfit(spec.type, "needs samples of at least 32 x 32", sample,
                 "enlarge them with the transform resize");
  }
  return std::make_shared<ConvNext>(drop_ratio, classes);
}

}  // namespace autotuned::trainer
