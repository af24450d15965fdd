// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/model_state.hpp"

#include <torch/nn/module.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trainer/extensions/weight_watch.hpp"

namespace autotuned::trainer {
namespace {

ModelState::Memory memory_of(const at::Tensor& tensor) {
  const bool is_plain = tensor.defined() && tensor.layout() == at::kStrided &&
                        tensor.has_storage() && !tensor.is_meta();
  if (!is_plain || tensor.numel() == 0) return {};
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // strides and sizes
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.size(i) > 1) dimensions.emplace_back(tensor.stride(i), tensor.size(i));
  std::ranges::sort(dimensions);
  ModelState::Memory memory;
  std::int64_t extent = 1;  // of the dimensions so far, in numbers
  for (const auto& [stride, size] : dimensions) {
    if (stride < extent) memory.is_folded = true;
    extent += (size - 1) * stride;
  }
  memory.begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  memory.end = memory.begin + static_cast<std::uintptr_t>(extent) * tensor.itemsize();
  return memory;
}

bool is_shared(const ModelState::Memory& one, const ModelState::Memory& other) {
  return one.begin < other.end && other.begin < one.end;
}

// REQUIRES: states with as many tensors.
std::string memory_difference(const ModelState& before, const ModelState& after) {
  for (std::size_t i = 0; i < after.memory.size(); ++i) {
    const std::string& name = after.tensors[i].name;
    if (after.memory[i].is_folded && !before.memory[i].is_folded) {
      return "numbers of " + name + " share memory, which they did not";
    }
    for (std::size_t j = i + 1; j < after.memory.size(); ++j) {
      const bool is_new = is_shared(after.memory[i], after.memory[j]) &&
                          !is_shared(before.memory[i], before.memory[j]);
      if (is_new) {
        return name + " and " + after.tensors[j].name + " share memory, which they did not";
      }
    }
  }
  return {};
}

}  // namespace

ModelState model_state_of(const torch::nn::Module& model) {
  ModelState state;
  const auto add = [&state](const std::string& name, const at::Tensor& tensor) {
    state.tensors.push_back(
        {name, tensor.unsafeGetTensorImpl(), tensor.sizes().vec(), tensor.requires_grad()});
    state.memory.push_back(memory_of(tensor));
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
  return freezing == Freezing::allowed ? std::string() : memory_difference(before, after);
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
  ModelState its_own{.tensors = {}, .memory = {}, .modes = after.modes};
  std::erase_if(its_own.modes, [&](const auto& mode) {
    const auto known = found.modes.find(mode.first);
    const bool is_as_found = known != found.modes.end() && known->second == mode.second;
    return is_as_found && (mode.second || !may_switch);
  });
  return mode_difference(before, its_own);
}

}  // namespace autotuned::trainer
