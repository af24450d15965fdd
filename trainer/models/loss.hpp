// SPDX-License-Identifier: Apache-2.0
// The losses of recipes. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::trainer {

enum class Loss {
  cross_entropy,  // with class masks the mean over the pixels that count
  bce,  // mean over samples and outputs of the binary cross entropy of logit and one-hot label, or tag
  mse,  // mean over samples and outputs of (output - target)^2; of classes the target is one-hot
  l1,   // mean over samples and outputs of |output - target|, of numbers
  smooth_l1,  // the same with a parabola below `bend` (PyTorch's beta)
  huber,      // smooth_l1 times `bend` (PyTorch's delta)
  // For class masks: 1 - the mean over samples and classes of (2 sum(p y) + s) / (sum(p) + sum(y) + s), summed over the
  // pixels of the sample that count, with the probability p (softmax), y = 1 where the class is there, s = `smooth`.
  dice,
  dice_ce,  // cross_entropy + `dice_weight` times dice
};

struct LossOptions {
  double label_smoothing =
      0.0;  // of cross_entropy and bce: share of the target spread over all classes
  at::Tensor
      class_weights;  // of cross_entropy: one for each class, on the logits' device; or not defined
  // For bce with tags: the weight of samples that have the tag, a scalar or one for each tag, on the logits' device; or
  // not defined.
  at::Tensor pos_weight;
  double bend = 1.0;         // of smooth_l1 and huber: they are linear from this difference on
  double smooth = 1e-5;      // of dice and dice_ce, above 0
  double dice_weight = 1.0;  // of dice_ce
};

// Computes a scalar from logits and labels. Logits (samples, outputs) go with classes (samples) in int64, or numbers,
// tags or shares of classes (samples, outputs) in float32; logits (samples, classes, rows, columns) with class masks
// (samples, rows, columns) in int64, with input::kNoClass where a pixel does not count; logits (samples, tokens,
// vocabulary) with tokens (samples, tokens) in int64. Throws c10::Error, or the exceptions of a plugin's loss.
using LossFunction = std::function<at::Tensor(const at::Tensor& logits, const at::Tensor& labels)>;

// ErrorKind::unsupported for an unknown name.
[[nodiscard]] Result<Loss> loss_from(const std::string& name);

// Reads the parameters of a recipe's loss. ErrorKind::invalid: not as many weights as classes.
[[nodiscard]] Result<LossOptions> loss_options_from(const Json& parameters, std::int64_t classes,
                                                    at::Device device);

// The same for evaluations: without label_smoothing and weights, which serve only the training.
[[nodiscard]] LossOptions evaluation_options_from(const Json& parameters);

// The mean over the samples, or over all tokens of all samples, as a scalar, computed as PyTorch does: in float32 under
// autocast, too. The cross entropy of masks without a pixel that counts is 0, with gradients of 0; PyTorch's is NaN.
// Throws c10::Error. REQUIRES: the labels are of a type that recipes::losses_of() lists with the loss; numbers have the
// logits' shape.
[[nodiscard]] at::Tensor loss_of(Loss loss, const at::Tensor& logits, const at::Tensor& labels,
                                 const LossOptions& options = {});

}  // namespace autotuned::trainer
