// SPDX-License-Identifier: Apache-2.0
// Which module of a TorchScript model is running. The header itself knows no LibTorch.
#pragma once

#include <string>

namespace autotuned::profiler {

// The path of the module whose code this thread interprets, without the script's own name: "layer1.0.conv1",
// or "" for the script itself. False, with `path` unchanged, if no script runs. Takes a few ns if no script
// runs, else some microseconds.
bool running_script_module(std::string& path);

}  // namespace autotuned::profiler
