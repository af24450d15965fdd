// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/torch_script.hpp"

#include <torch/csrc/jit/runtime/interpreter.h>

#include "profiler/recorder/timeline.hpp"

namespace autotuned::profiler {

bool running_script_module(std::string& path) {
  if (!torch::jit::in_torchscript_runtime()) return false;
  path.clear();
  // The stack has an entry for each function that was called rather than inlined.
  for (const std::string& hierarchy : torch::jit::currentModuleHierarchy()) {
    const std::string part = script_module_path(hierarchy);
    if (part.empty()) continue;
    if (!path.empty()) path += '.';
    path += part;
  }
  return true;
}

}  // namespace autotuned::profiler
