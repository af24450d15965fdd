// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/loss.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/zeros.h>

namespace autotuned::trainer {

Result<Loss> loss_from(const std::string& name) {
  if (name == "cross_entropy") return Loss::cross_entropy;
  if (name == "mse") return Loss::mse;
  return fail(ErrorKind::unsupported, "this trainer has no loss '" + name + "'");
}

at::Tensor loss_of(Loss loss, const at::Tensor& logits, const at::Tensor& labels) {
  if (loss == Loss::cross_entropy) return at::cross_entropy_loss(logits, labels);
  const at::Tensor target = at::zeros(logits.sizes(), logits.options().dtype(at::kFloat))
                                .scatter_(1, labels.unsqueeze(1), 1.0);
  return at::mse_loss(logits, target);
}

}  // namespace autotuned::trainer
