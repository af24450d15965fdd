// SPDX-License-Identifier: Apache-2.0
// The models that recipes name. Private to trainer/: includes LibTorch.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
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

// Parameters have the names that they would have in PyTorch if the layers were attributes of a module.
class Model : public torch::nn::Module {
 public:
  // Returns logits (samples, classes) for images (samples, channels, rows, columns), or with gives_maps() logits
  // (samples, classes, rows, columns); or (samples, tokens, classes) for tokens, int64 (samples, tokens).
  virtual at::Tensor forward(const at::Tensor& images) = 0;

  [[nodiscard]] std::int64_t classes() const { return classes_; }
  // Whether it classifies every pixel of an image, instead of the image.
  [[nodiscard]] bool gives_maps() const { return gives_maps_; }
  // Why its modules are not called through call() (call.hpp), so that single modules cannot be kept in 32 bits; empty:
  // they are.
  [[nodiscard]] virtual std::string why_opaque() const { return {}; }

  // The second names of parameters that two modules share.
  [[nodiscard]] virtual std::vector<TiedName> tied_names() const { return {}; }

 protected:
  explicit Model(std::int64_t classes, bool gives_maps = false)
      : classes_(classes), gives_maps_(gives_maps) {}

 private:
  std::int64_t classes_;
  bool gives_maps_;
};

// The form of a user's model, detected from its output for some images.
struct OutputForm {
  std::int64_t classes = 0;
  bool gives_maps = false;
};
// Nothing if the logits have neither of the two forms.
[[nodiscard]] std::optional<OutputForm> output_form(const at::Tensor& logits, std::int64_t samples,
                                                    input::SampleShape image);

// Makes a model with PyTorch's default initialisation, from the present state of LibTorch's CPU generator.
// ErrorKind::unsupported for an unknown type, ErrorKind::invalid for a sample too small for it. Throws c10::Error when
// memory runs out.
[[nodiscard]] Result<std::shared_ptr<Model>> make_model(const recipes::Component& spec,
                                                        input::SampleShape sample);

}  // namespace autotuned::trainer
