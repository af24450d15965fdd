// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/loss.hpp"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/tensor.h>

#include <optional>
#include <tuple>
#include <vector>

#include "trainer/input/common/sample.hpp"

namespace autotuned::trainer {
namespace {

// `on` at the label, `off` at the other classes.
at::Tensor targets(const at::Tensor& logits, const at::Tensor& labels, double on, double off) {
  return at::full(logits.sizes(), off, logits.options().dtype(at::kFloat))
      .scatter_(1, labels.unsqueeze(1), on);
}

Result<std::vector<double>> weights_from(const Json& weights, const std::string& name,
                                         const std::string& one, std::int64_t count) {
  std::vector<double> values;
  for (const Json& weight : weights) {
    if (!weight.is_number()) return fail(ErrorKind::invalid, name + ": expected numbers", "loss");
    values.push_back(weight.get<double>());
  }
  if (static_cast<std::int64_t>(values.size()) != count) {
    return fail(ErrorKind::invalid,
                name + " has " + std::to_string(values.size()) + " weights, the model " +
                    std::to_string(count) + (one == "class" ? " classes" : " outputs"),
                "loss", "give one weight for each " + one);
  }
  return values;
}

at::Tensor loss_of_numbers(Loss loss, const at::Tensor& outputs, const at::Tensor& numbers,
                           double bend) {
  if (loss == Loss::l1) return at::l1_loss(outputs, numbers);
  if (loss == Loss::huber) return at::huber_loss(outputs, numbers, at::Reduction::Mean, bend);
  if (loss == Loss::smooth_l1) {
    return at::smooth_l1_loss(outputs, numbers, at::Reduction::Mean, bend);
  }
  return at::mse_loss(outputs, numbers);
}

at::Tensor cross_entropy(at::Tensor logits, at::Tensor labels, const LossOptions& options) {
  constexpr std::int64_t kNothing = -100;  // PyTorch's default: no label is left out
  const bool are_masks = labels.dim() == 3;
  const std::int64_t ignored = are_masks ? input::kNoClass : kNothing;
  // The mean over no pixel is NaN. This is detected on the device, without waiting for it.
  const at::Tensor is_empty = are_masks ? labels.eq(ignored).all() : at::Tensor();
  const auto or_nothing = [&is_empty](const at::Tensor& loss) {
    return is_empty.defined() ? loss.masked_fill(is_empty, 0.0) : loss;
  };
  // On a GPU the loss of masks adds up in any order; that of rows is deterministic.
  if (are_masks && !logits.is_cpu() && at::globalContext().deterministicAlgorithms()) {
    logits = logits.permute({0, 2, 3, 1}).flatten(0, 2);
    labels = labels.flatten();
  }
  if (options.label_smoothing == 0.0 && !options.class_weights.defined() &&
      !labels.is_floating_point()) {
    return or_nothing(at::cross_entropy_loss(logits, labels, {}, at::Reduction::Mean, ignored));
  }
  std::optional<at::Tensor> weights;
  if (options.class_weights.defined()) weights = options.class_weights;
  return or_nothing(at::cross_entropy_loss(logits.to(at::kFloat), labels, weights,
                                           at::Reduction::Mean, ignored, options.label_smoothing));
}

at::Tensor dice(const at::Tensor& logits, const at::Tensor& labels, double smooth) {
  const at::Tensor classes =
      at::arange(logits.size(1), labels.options()).view({1, logits.size(1), 1, 1});
  const at::Tensor wanted = labels.unsqueeze(1);
  const at::Tensor is_class = wanted.eq(classes).to(at::kFloat);  // nowhere of kNoClass
  const at::Tensor counts = wanted.ne(static_cast<std::int64_t>(input::kNoClass)).to(at::kFloat);
  const at::Tensor shares = logits.to(at::kFloat).softmax(1) * counts;
  const at::Tensor overlap = (shares * is_class).sum({2, 3});
  const at::Tensor sizes = shares.sum({2, 3}) + is_class.sum({2, 3});
  return 1.0 - ((2.0 * overlap + smooth) / (sizes + smooth)).mean();
}

}  // namespace

Result<Loss> loss_from(const std::string& name) {
  if (name == "cross_entropy") return Loss::cross_entropy;
  if (name == "bce") return Loss::bce;
  if (name == "mse") return Loss::mse;
  if (name == "l1") return Loss::l1;
  if (name == "smooth_l1") return Loss::smooth_l1;
  if (name == "huber") return Loss::huber;
  if (name == "dice") return Loss::dice;
  if (name == "dice_ce") return Loss::dice_ce;
  return fail(ErrorKind::unsupported, "this trainer has no loss '" + name + "'");
}

Result<LossOptions> loss_options_from(const Json& parameters, std::int64_t classes,
                                      at::Device device) {
  LossOptions options = evaluation_options_from(parameters);
  if (const auto smoothing = get_number(parameters, "label_smoothing")) {
    options.label_smoothing = *smoothing;
  }
  if (const auto weight = get_number(parameters, "pos_weight")) {
    options.pos_weight = at::full({}, *weight, at::dtype(at::kFloat)).to(device);
  }
  for (const auto& [name, one, tensor] :
       {std::tuple{"class_weights", "class", &options.class_weights},
        std::tuple{"pos_weight", "tag", &options.pos_weight}}) {
    const Json& weights = member(parameters, name);
    if (!weights.is_array()) continue;
    auto values = weights_from(weights, name, one, classes);
    if (!values) return tl::unexpected(values.error());
    *tensor = at::tensor(*values, at::dtype(at::kFloat)).to(device);
  }
  return options;
}

LossOptions evaluation_options_from(const Json& parameters) {
  LossOptions options;
  for (const char* const name : {"beta", "delta"})
    if (const auto bend = get_number(parameters, name)) options.bend = *bend;
  if (const auto smooth = get_number(parameters, "smooth")) options.smooth = *smooth;
  if (const auto weight = get_number(parameters, "dice_weight")) options.dice_weight = *weight;
  return options;
}

at::Tensor loss_of(Loss loss, const at::Tensor& logits, const at::Tensor& labels,
                   const LossOptions& options) {
  if (logits.dim() == 3 && labels.dim() == 2) {  // of tokens
    return loss_of(loss, logits.flatten(0, 1), labels.flatten(), options);
  }
  if (loss == Loss::cross_entropy) return cross_entropy(logits, labels, options);
  if (loss == Loss::dice) return dice(logits, labels, options.smooth);
  if (loss == Loss::dice_ce) {
    return cross_entropy(logits, labels, options) +
           options.dice_weight * dice(logits, labels, options.smooth);
  }
  if (loss == Loss::bce && labels.is_floating_point()) {
    std::optional<at::Tensor> weights;
    if (options.pos_weight.defined()) weights = options.pos_weight;
    return at::binary_cross_entropy_with_logits(logits.to(at::kFloat), labels, {}, weights);
  }
  if (loss == Loss::bce) {
    const double off = options.label_smoothing / static_cast<double>(logits.size(1));
    return at::binary_cross_entropy_with_logits(
        logits.to(at::kFloat), targets(logits, labels, 1.0 - options.label_smoothing + off, off));
  }
  if (!labels.is_floating_point()) {
    return at::mse_loss(logits, targets(logits, labels, 1.0, 0.0));
  }
  return loss_of_numbers(loss, logits.to(at::kFloat), labels, options.bend);
}

}  // namespace autotuned::trainer
