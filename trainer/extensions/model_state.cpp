// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/model_state.hpp"

#include <torch/nn/module.h>

#include <cstddef>

#include "trainer/extensions/weight_watch.hpp"

namespace autotuned::trainer {

ModelState model_state_of(const torch::nn::Module& model) {
  ModelState state;
  const auto add = [&state](const std::string& name, const at::Tensor& tensor) {
    state.tensors.push_back(
        {name, tensor.unsafeGetTensorImpl(), tensor.sizes().vec(), tensor.requires_grad()});
  };
  for (const auto& parameter : model.named_parameters())
    add(parameter.key(), parameter.value());
  for (const auto& buffer : model.named_buffers())
    add(buffer.key(), buffer.value());
  state.modes[""] = model.is_training();
  for (const auto& module : model.named_modules("", /*include_self=*/false))
    state.modes[module.key()] = module.value()->is_training();
  return state;
}

std::string tensor_difference(const ModelState& before, const ModelState& after,
                              Freezing freezing) {
  if (before.tensors.size() != after.tensors.size()) {
    return "the model has other tensors than before";
  }
  for (std::size_t i = 0; i < before.tensors.size(); ++i) {
    ModelState::Tensor expected = before.tensors[i];
    const ModelState::Tensor& now = after.tensors[i];
    if (freezing == Freezing::allowed) expected.is_trained = now.is_trained;
    if (now == expected) continue;
    if (expected.is_trained != now.is_trained) {
      return expected.name +
             (expected.is_trained ? " is not trained any more" : " is trained, which it was not");
    }
    return expected.name + " is another tensor than before";
  }
  return {};
}

std::string mode_difference(const ModelState& before, const ModelState& after) {
  for (const auto& [name, is_training] : after.modes) {
    const auto known = before.modes.find(name);
    if (known == before.modes.end() || known->second == is_training) continue;
    return "leaves " + module_in_mode(name, is_training);
  }
  return {};
}

std::string mode_difference_of_undo(const ModelState& before, const ModelState& found,
                                    const ModelState& after, bool may_switch) {
  ModelState its_own{.tensors = {}, .modes = after.modes};
  std::erase_if(its_own.modes, [&](const auto& mode) {
    const auto known = found.modes.find(mode.first);
    const bool is_as_found = known != found.modes.end() && known->second == mode.second;
    return is_as_found && (mode.second || !may_switch);
  });
  return mode_difference(before, its_own);
}

}  // namespace autotuned::trainer
