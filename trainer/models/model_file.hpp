// SPDX-License-Identifier: Apache-2.0
// Recognises files of models that are not TorchScript. Private to trainer/: includes LibTorch.
#pragma once

#include <filesystem>
#include <string>

namespace autotuned::trainer {

// Says what a file holds instead of TorchScript, and what to do; empty if that is unknown. Does not throw.
[[nodiscard]] std::string what_instead_of_torchscript(const std::filesystem::path& file);

}  // namespace autotuned::trainer
