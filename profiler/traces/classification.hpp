// SPDX-License-Identifier: Apache-2.0
// What kind of event it is, from the names that versions and back ends of PyTorch use.
#pragma once

#include <optional>
#include <string_view>

#include "profiler/traces/trace.hpp"

namespace autotuned::traces {

enum class Category {
  host,  // operators and annotations, which the name distinguishes
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

// `text`: the event's "cat", in upper or lower case.
[[nodiscard]] Category category_of(std::string_view text);

// The prefix of calls of modules: "nn.Module: Conv2d_0".
inline constexpr std::string_view kModulePrefix = "nn.Module: ";

// The operator of c10d whose arguments name the operation and its sizes.
inline constexpr std::string_view kCollectiveCall = "record_param_comms";

// The kind of an event of this category and name; nothing if it is not analysed.
[[nodiscard]] std::optional<EventKind> kind_of(Category category, std::string_view name);

// Whether it is an operation of a library that exchanges data between devices (NCCL, RCCL, HCCL, oneCCL, …),
// by the name of its kernel or of the call on the host.
[[nodiscard]] bool is_device_collective(std::string_view name);
// The same for a library that exchanges data through the host (Gloo, MPI).
[[nodiscard]] bool is_host_collective(std::string_view name);

}  // namespace autotuned::traces
