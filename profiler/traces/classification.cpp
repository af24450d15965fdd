// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/classification.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace autotuned::traces {
namespace {

// Current names first, then those of PyTorch 1.8 to 1.11.
constexpr std::array kCategories = {
    std::pair{"cpu_op", Category::host},
    std::pair{"operator", Category::host},
    std::pair{"python", Category::host},
    std::pair{"user_annotation", Category::annotation},
    std::pair{"python_function", Category::python_function},
    std::pair{"kernel", Category::kernel},
    std::pair{"gpu_memcpy", Category::copy},
    std::pair{"memcpy", Category::copy},
    std::pair{"gpu_memset", Category::fill},
    std::pair{"memset", Category::fill},
    std::pair{"runtime", Category::runtime_call},
    std::pair{"driver", Category::runtime_call},
    std::pair{"overhead", Category::overhead},
    // Copies of annotations on the device, and marks of synchronisation, are not work.
    std::pair{"gpu_user_annotation", Category::passed_over},
    std::pair{"cuda_sync", Category::passed_over},
    std::pair{"cuda_event", Category::passed_over},
    std::pair{"cpu_instant_event", Category::passed_over},
    std::pair{"cuda_profiler_range", Category::passed_over},
    std::pair{"fwdbwd", Category::passed_over},
    std::pair{"ac2g", Category::passed_over},
    std::pair{"forward_backward", Category::passed_over},
    std::pair{"async_cpu_to_gpu", Category::passed_over},
    std::pair{"async_gpu", Category::passed_over},
    std::pair{"trace", Category::passed_over},
};

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

// Huawei's kernels begin with hcom_, its operators on the host with Hccl.
constexpr std::array<std::string_view, 8> kDeviceLibraries = {"nccl", "rccl",   "msccl", "hccl",
                                                              "hcom", "oneccl", "xccl",  "cncl"};
constexpr std::array<std::string_view, 2> kHostLibraries = {"gloo", "mpi"};

template <std::size_t count>
bool begins_with_any(std::string_view name, const std::array<std::string_view, count>& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return name.starts_with(word); });
}

// "nccl:all_reduce": the form of c10d's names for operations on the host.
bool is_collective_call(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos || name.substr(colon).starts_with("::")) return false;
  const std::string_view library = name.substr(0, colon);
  return library == "ucc" || std::ranges::find(kHostLibraries, library) != kHostLibraries.end() ||
         std::ranges::find(kDeviceLibraries, library) != kDeviceLibraries.end();
}

bool is_loading(std::string_view name) {
  return (name.starts_with("enumerate(DataLoader)#") && name.ends_with(".__next__")) ||
         name.starts_with("enumerate(DataPipe)#");
}

}  // namespace

Category category_of(std::string_view text) {
  const std::string lower = in_lower_case(text);
  for (const auto& [name, category] : kCategories) {
    if (lower == name) return category;
  }
  // cuda_runtime, cuda_driver, hip_runtime, xpu_runtime, mtia_runtime, privateuse1_runtime, ...
  if (lower.ends_with("_runtime") || lower.ends_with("_driver")) return Category::runtime_call;
  return Category::unknown;
}

bool is_device_collective(std::string_view name) {
  return begins_with_any(in_lower_case(name.substr(0, 8)), kDeviceLibraries);
}

bool is_host_collective(std::string_view name) {
  return is_collective_call(name) && begins_with_any(name, kHostLibraries);
}

std::optional<EventKind> kind_of(Category category, std::string_view name) {
  switch (category) {
    case Category::host:
    case Category::annotation:
      if (name.starts_with("ProfilerStep#")) return EventKind::step;
      if (name.starts_with(kModulePrefix)) return EventKind::module;
      if (is_loading(name)) return EventKind::data_loading;
      if (is_collective_call(name)) return EventKind::communication;
      return category == Category::host ? EventKind::cpu_operator : EventKind::annotation;
    case Category::runtime_call:
      return EventKind::runtime_call;
    case Category::kernel:
      return EventKind::kernel;
    case Category::copy:
      return EventKind::copy;
    case Category::fill:
      return EventKind::fill;
    case Category::overhead:
      return EventKind::overhead;
    case Category::python_function:
      if (name.starts_with(kModulePrefix)) return EventKind::module;
      break;
    case Category::passed_over:
    case Category::unknown:
      break;
  }
  return std::nullopt;
}

}  // namespace autotuned::traces
