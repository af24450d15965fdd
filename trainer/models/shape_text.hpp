// SPDX-License-Identifier: Apache-2.0
// Describes tensors in messages. Private to trainer/models: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <sstream>
#include <string>

namespace autotuned::trainer {

// "Float[32, 10]"
[[nodiscard]] inline std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << tensor.sizes();
  return text.str();
}

}  // namespace autotuned::trainer
