// SPDX-License-Identifier: Apache-2.0
// Which module of a TorchScript model is running. The header itself knows no LibTorch.
#pragma once

#include <string>

namespace autotuned::profiler {

// The path of the module whose code this thread is interpreting, below the script's own:
// "layer1.0.conv1", or "" for the script itself. False, and `path` untouched, where no script runs; that
// costs a few ns, the other case some microseconds.
bool running_script_module(std::string& path);

}  // namespace autotuned::profiler
