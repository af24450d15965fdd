// SPDX-License-Identifier: Apache-2.0
// A model that TorchScript's interpreter runs, so that another script can be put in its place. Private to
// trainer/: includes LibTorch.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "base/result.hpp"

namespace autotuned::trainer {

// What a Model may be beside.
class Scripted {
 public:
  virtual ~Scripted() = default;
  // As it came from its file. Nobody may change its graphs.
  [[nodiscard]] virtual const torch::jit::Module& original() const = 0;
  // forward() runs this one from now on. ErrorKind::invalid, and nothing has changed: it has other parameters
  // or buffers than the original, or a malformed forward.
  [[nodiscard]] virtual Result<void> run(torch::jit::Module script) = 0;
};

}  // namespace autotuned::trainer
