// SPDX-License-Identifier: Apache-2.0
// Files that Python writes and that are no TorchScript. Private to trainer/: includes LibTorch.
#pragma once

#include <filesystem>
#include <string>

namespace autotuned::trainer {

// What a file is that holds no TorchScript model, as a clause with what to do; empty: not known. Does not throw.
[[nodiscard]] std::string what_instead_of_torchscript(const std::filesystem::path& file);

}  // namespace autotuned::trainer
