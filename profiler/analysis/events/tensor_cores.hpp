// SPDX-License-Identifier: Apache-2.0
// Whether a kernel computes on tensor cores, as far as its name shows.
#pragma once

#include <string_view>

namespace autotuned::analysis {

enum class TensorCores { no, yes, unknown };  // unknown: generated kernels, whose names say nothing

[[nodiscard]] TensorCores tensor_cores_of(std::string_view kernel);
// "no", "yes", "unknown".
[[nodiscard]] const char* to_string(TensorCores use);

}  // namespace autotuned::analysis
