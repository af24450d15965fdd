// SPDX-License-Identifier: Apache-2.0
// What an event is, from the words that PyTorch's versions and back ends use for it.
#pragma once

#include <optional>
#include <string_view>

#include "profiler/traces/trace.hpp"

namespace autotuned::traces {

enum class Category {
  host,  // operators and annotations: the name decides
  annotation,
  python_function,
  runtime_call,
  kernel,
  copy,
  fill,
  overhead,
  passed_over,  // known, and nothing that is analysed
  unknown,
};

// `text` is the event's "cat", in any case.
[[nodiscard]] Category category_of(std::string_view text);

// How the calls of modules are named: "nn.Module: Conv2d_0".
inline constexpr std::string_view kModulePrefix = "nn.Module: ";

// The operator of c10d that says what is exchanged.
inline constexpr std::string_view kCollectiveCall = "record_param_comms";

// What an event of this category and name is; nothing for those that are passed over.
[[nodiscard]] std::optional<EventKind> kind_of(Category category, std::string_view name);

// Whether it is an operation of a library that lets devices exchange data (NCCL, RCCL, HCCL, oneCCL, …), by
// the name of its kernel or of the call on the host.
[[nodiscard]] bool is_device_collective(std::string_view name);
// The same of one that exchanges through the host (Gloo, MPI).
[[nodiscard]] bool is_host_collective(std::string_view name);

}  // namespace autotuned::traces
