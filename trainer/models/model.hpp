// SPDX-License-Identifier: Apache-2.0
// The models that recipes name. Private to trainer/: includes LibTorch.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "recipes/recipe.hpp"
#include "trainer/input/common/sample.hpp"

namespace autotuned::trainer {

// A second name of a parameter in a state dictionary of PyTorch.
struct TiedName {
  std::string name;
  std::string of;  // the parameter
};

// Parameters carry the names that the same model has in PyTorch when its layers are attributes.
class Model : public torch::nn::Module {
 public:
  // Logits (samples, classes) of images (samples, channels, rows, columns), or (samples, tokens, classes) of tokens, int64
  // (samples, tokens).
  virtual at::Tensor forward(const at::Tensor& images) = 0;

  [[nodiscard]] std::int64_t classes() const { return classes_; }
  // Why its modules are not called through call() (call.hpp), so that nothing can be done around one of
  // them; empty: they are.
  [[nodiscard]] virtual std::string why_opaque() const { return {}; }

  // Of parameters that two modules share.
  [[nodiscard]] virtual std::vector<TiedName> tied_names() const { return {}; }

 protected:
  explicit Model(std::int64_t classes) : classes_(classes) {}

 private:
  std::int64_t classes_;
};

// Initialised with PyTorch's defaults from LibTorch's CPU generator, as it stands when called.
// ErrorKind::unsupported for an unknown type, ErrorKind::invalid for a sample too small for it.
// Throws c10::Error when memory runs out.
[[nodiscard]] Result<std::shared_ptr<Model>> make_model(const recipes::Typed& spec,
                                                        input::SampleShape sample);

}  // namespace autotuned::trainer
