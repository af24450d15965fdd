// SPDX-License-Identifier: Apache-2.0
// The interface of a model that TorchScript's interpreter runs, and whose script can be replaced. Private to trainer/:
// includes LibTorch.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "base/result.hpp"

namespace autotuned::trainer {

// A second interface that a Model may implement.
class Scripted {
 public:
  virtual ~Scripted() = default;
  // The script as it was read from its file. Its graphs must not be changed.
  [[nodiscard]] virtual const torch::jit::Module& original() const = 0;
  // The script that forward() runs.
  [[nodiscard]] virtual const torch::jit::Module& running() const = 0;
  // Makes forward() run `script` from now on. ErrorKind::invalid: it has other parameters or buffers than the original,
  // or a malformed forward; nothing has changed then.
  [[nodiscard]] virtual Result<void> run(torch::jit::Module script) = 0;
};

}  // namespace autotuned::trainer
