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
    // The device's copy of annotations, and marks of synchronisation: neither is work.
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

bool is_loading(std::string_view name) {
  return (name.starts_with("enumerate(DataLoader)#") && name.ends_with(".__next__")) ||
         name.starts_with("enumerate(DataPipe)#");
}

}  // namespace

Category category_of(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const auto& [name, category] : kCategories) {
    if (lower == name) return category;
  }
  // cuda_runtime, cuda_driver, hip_runtime, xpu_runtime, mtia_runtime, privateuse1_runtime, ...
  if (lower.ends_with("_runtime") || lower.ends_with("_driver")) return Category::runtime_call;
  return Category::unknown;
}

std::optional<EventKind> kind_of(Category category, std::string_view name) {
  switch (category) {
    case Category::host:
    case Category::annotation:
      if (name.starts_with("ProfilerStep#")) return EventKind::step;
      if (name.starts_with(kModulePrefix)) return EventKind::module;
      if (is_loading(name)) return EventKind::data_loading;
      if (name.starts_with("nccl:") || name.starts_with("gloo:")) return EventKind::communication;
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
