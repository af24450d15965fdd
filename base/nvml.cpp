// SPDX-License-Identifier: Apache-2.0
#include "base/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace autotuned {
namespace {

// The part of nvml.h (of the CUDA toolkit) that is needed. These signatures never change: NVML adds
// a function with a new suffix instead.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlNotSupported = 3;
constexpr std::size_t kNvmlTextBytes = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE, the longest

using NvmlText = std::array<char, kNvmlTextBytes>;

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*system_get_driver_version)(char*, unsigned) = nullptr;
  int (*device_get_count)(unsigned*) = nullptr;
  int (*device_get_handle_by_index)(unsigned, NvmlDevice*) = nullptr;
  int (*device_get_uuid)(NvmlDevice, char*, unsigned) = nullptr;
  int (*device_get_name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*device_get_memory_info)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*device_get_cuda_compute_capability)(NvmlDevice, int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
};

// The name of the first function that the library lacks; empty when all are there.
std::string load_functions(void* library, Nvml& nvml) {
  std::string missing;
  const auto load = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  load(nvml.init, "nvmlInit_v2");
  load(nvml.shutdown, "nvmlShutdown");
  load(nvml.system_get_driver_version, "nvmlSystemGetDriverVersion");
  load(nvml.device_get_count, "nvmlDeviceGetCount_v2");
  load(nvml.device_get_handle_by_index, "nvmlDeviceGetHandleByIndex_v2");
  load(nvml.device_get_uuid, "nvmlDeviceGetUUID");
  load(nvml.device_get_name, "nvmlDeviceGetName");
  load(nvml.device_get_memory_info, "nvmlDeviceGetMemoryInfo");
  load(nvml.device_get_cuda_compute_capability, "nvmlDeviceGetCudaComputeCapability");
  load(nvml.error_string, "nvmlErrorString");
  return missing;
}

std::string failure(const Nvml& nvml, const char* call, int code) {
  const char* text = nvml.error_string(code);
  return fmt::format("{} failed: {}", call, text != nullptr ? text : std::to_string(code).c_str());
}

std::string text_of(NvmlText& text) {
  text.back() = '\0';
  return text.data();
}

// The reason when the GPU cannot be described; empty and `gpu` filled otherwise.
std::string describe(const Nvml& nvml, unsigned index, Gpu& gpu) {
  NvmlDevice device = nullptr;
  NvmlText text{};
  if (int code = nvml.device_get_handle_by_index(index, &device); code != kNvmlSuccess) {
    return failure(nvml, "nvmlDeviceGetHandleByIndex_v2", code);
  }
  if (int code = nvml.device_get_uuid(device, text.data(), kNvmlTextBytes); code != kNvmlSuccess) {
    return failure(nvml, "nvmlDeviceGetUUID", code);
  }
  gpu.uuid = text_of(text);
  text = {};
  if (int code = nvml.device_get_name(device, text.data(), kNvmlTextBytes); code != kNvmlSuccess) {
    return failure(nvml, "nvmlDeviceGetName", code);
  }
  gpu.name = text_of(text);
  NvmlMemory memory{};
  // A GPU that shares the host's memory has none of its own to report: it stays 0.
  if (int code = nvml.device_get_memory_info(device, &memory);
      code != kNvmlSuccess && code != kNvmlNotSupported) {
    return failure(nvml, "nvmlDeviceGetMemoryInfo", code);
  }
  if (!std::in_range<std::int64_t>(memory.total)) return "its memory size makes no sense";
  gpu.memory_bytes = static_cast<std::int64_t>(memory.total);
  if (int code = nvml.device_get_cuda_compute_capability(device, &gpu.compute_capability_major,
                                                         &gpu.compute_capability_minor);
      code != kNvmlSuccess) {
    return failure(nvml, "nvmlDeviceGetCudaComputeCapability", code);
  }
  return {};
}

void list_gpus(const Nvml& nvml, NvmlReport& report) {
  NvmlText version{};
  if (int code = nvml.system_get_driver_version(version.data(), kNvmlTextBytes);
      code != kNvmlSuccess) {
    report.reason = failure(nvml, "nvmlSystemGetDriverVersion", code);
    return;
  }
  report.driver = text_of(version);
  unsigned count = 0;
  if (int code = nvml.device_get_count(&count); code != kNvmlSuccess) {
    report.reason = failure(nvml, "nvmlDeviceGetCount_v2", code);
    return;
  }
  if (count == 0) report.reason = "the NVIDIA driver lists no GPU";
  constexpr unsigned kMaxGpus = 1024;  // a count beyond that is not believed
  for (unsigned index = 0; index < std::min(count, kMaxGpus); ++index) {
    Gpu gpu;
    const std::string reason = describe(nvml, index, gpu);
    if (reason.empty()) {
      report.gpus.push_back(std::move(gpu));
    } else if (report.reason.empty()) {
      report.reason = fmt::format("GPU {} is left out ({})", index, reason);
    }
  }
}

}  // namespace

NvmlReport read_nvml(const char* library) {
  NvmlReport report;
  // Never closed: the driver's library starts threads of its own.
  void* opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* error = ::dlerror();
    const std::string_view text = error != nullptr ? error : "";
    // It may be there and miss a library of its own.
    const bool is_missing = text.starts_with(std::string(library) + ":") &&
                            text.find("No such file") != std::string_view::npos;
    report.reason = is_missing ? fmt::format("no NVIDIA driver ({} is missing)", library)
                               : fmt::format("the NVIDIA driver cannot be loaded ({})", text);
    return report;
  }
  Nvml nvml;
  if (const std::string missing = load_functions(opened, nvml); !missing.empty()) {
    report.reason = fmt::format("the NVIDIA driver is too old ({} lacks {})", library, missing);
    return report;
  }
  if (const int code = nvml.init(); code != kNvmlSuccess) {
    report.reason = failure(nvml, "nvmlInit_v2", code);
    return report;
  }
  list_gpus(nvml, report);
  (void)nvml.shutdown();
  return report;
}

}  // namespace autotuned
