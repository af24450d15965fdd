// SPDX-License-Identifier: Apache-2.0
// Classifies events by the names that versions and back ends of PyTorch use.
#pragma once

#include <optional>
#include <string_view>

#include "profiler/traces/trace.hpp"

namespace autotuned::traces {

enum class Category {
  host,  // an operator or an annotation: the name decides
  annotation,
  python_function,
  runtime_call,
  kernel,
  copy,
  fill,
  overhead,
  passed_over,  // known, but not analysed
  unknown,
};

// Returns the category of an event. `text`: its "cat", in upper or lower case.
[[nodiscard]] Category category_of(std::string_view text);

// The prefix of calls of modules: "nn.Module: Conv2d_0".
inline constexpr std::string_view kModulePrefix = "nn.Module: ";

// The operator of c10d whose arguments name the operation and its sizes.
inline constexpr std::string_view kCollectiveCall = "record_param_comms";

// Returns the kind of an event of this category and name; nothing if it is not analysed.
[[nodiscard]] std::optional<EventKind> kind_of(Category category, std::string_view name);

// Whether the name of a kernel, or of a call on the host, is that of an operation of a library that exchanges data between devices (NCCL,
// RCCL, HCCL, oneCCL, …).
[[nodiscard]] bool is_device_collective(std::string_view name);
// The same for libraries that exchange data through the host (Gloo, MPI).
[[nodiscard]] bool is_host_collective(std::string_view name);

}  // namespace autotuned::traces
