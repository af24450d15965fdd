// SPDX-License-Identifier: Apache-2.0
// Finds the running module of a TorchScript model. This header does not need LibTorch.
#pragma once

#include <string>

namespace autotuned::profiler {

// Sets `path` to that of the module whose code this thread interprets, without the script's own name: "layer1.0.conv1", or "" for the
// script itself. Returns false, with `path` unchanged, if no script runs. Takes a few ns if no script runs, else some microseconds.
bool running_script_module(std::string& path);

}  // namespace autotuned::profiler
