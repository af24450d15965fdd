// SPDX-License-Identifier: Apache-2.0
#include "base/machine/nvml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/function_lookup.hpp"
#include "base/machine/driver_library.hpp"

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
constexpr unsigned kMaxGpus = 1024;  // a larger count is taken for an error
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlNotSupported = 3;
constexpr std::size_t kNvmlTextBytes = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE, the longest

// nvmlProcessInfo_t, as nvmlDeviceGetComputeRunningProcesses_v3 fills it.
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_gpu_memory;
  unsigned gpu_instance_id;
  unsigned compute_instance_id;
};
struct NvmlViolation {
  unsigned long long reference_time_us;
  unsigned long long violation_time_ns;
};
constexpr int kNvmlInsufficientSize = 7;
constexpr int kNvmlPolicyPower = 0;
constexpr int kNvmlPolicyThermal = 1;
constexpr unsigned long long kNvmlSlowdownThermal = 0x20U | 0x40U;  // by software, by hardware
constexpr unsigned long long kNvmlSlowdownBrake = 0x80U;

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
  // Null if the driver lacks them.
  int (*device_get_clocks_throttle_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*device_get_processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
  int (*device_get_violation_status)(NvmlDevice, int, NvmlViolation*) = nullptr;
};

// Returns the name of the first function that the library lacks; empty if it has all.
std::string load_functions(void* library, Nvml& nvml) {
  FunctionLookup functions(library);
  functions.find(nvml.init, "nvmlInit_v2");
  functions.find(nvml.shutdown, "nvmlShutdown");
  functions.find(nvml.system_get_driver_version, "nvmlSystemGetDriverVersion");
  functions.find(nvml.device_get_count, "nvmlDeviceGetCount_v2");
  functions.find(nvml.device_get_handle_by_index, "nvmlDeviceGetHandleByIndex_v2");
  functions.find(nvml.device_get_uuid, "nvmlDeviceGetUUID");
  functions.find(nvml.device_get_name, "nvmlDeviceGetName");
  functions.find(nvml.device_get_memory_info, "nvmlDeviceGetMemoryInfo");
  functions.find(nvml.device_get_cuda_compute_capability, "nvmlDeviceGetCudaComputeCapability");
  functions.find(nvml.error_string, "nvmlErrorString");
  std::string missing = functions.first_missing();
  functions.find(nvml.device_get_clocks_throttle_reasons,
                 "nvmlDeviceGetCurrentClocksThrottleReasons");
  functions.find(nvml.device_get_processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  functions.find(nvml.device_get_violation_status, "nvmlDeviceGetViolationStatus");
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

// Fills `gpu` and returns an empty text, or returns why the GPU cannot be described.
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
  // A GPU that shares the memory of the host reports none of its own: the value stays 0.
  if (int code = nvml.device_get_memory_info(device, &memory);
      code != kNvmlSuccess && code != kNvmlNotSupported) {
    return failure(nvml, "nvmlDeviceGetMemoryInfo", code);
  }
  if (!std::in_range<std::int64_t>(memory.total)) return "its memory size is invalid";
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

// Returns nothing if the driver does not report the value.
std::optional<std::chrono::nanoseconds> slowed_by(const Nvml& nvml, NvmlDevice device, int policy) {
  NvmlViolation violation{};
  if (nvml.device_get_violation_status == nullptr ||
      nvml.device_get_violation_status(device, policy, &violation) != kNvmlSuccess ||
      !std::in_range<std::int64_t>(violation.violation_time_ns)) {
    return std::nullopt;
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(violation.violation_time_ns));
}

int count_processes(const Nvml& nvml, NvmlDevice device) {
  constexpr std::size_t kMax = 64;
  std::array<NvmlProcess, kMax> processes{};
  unsigned count = kMax;
  if (nvml.device_get_processes == nullptr) return 0;
  const int code = nvml.device_get_processes(device, &count, processes.data());
  if (code == kNvmlInsufficientSize) return static_cast<int>(kMax);
  return code == kNvmlSuccess ? static_cast<int>(std::min<unsigned>(count, kMax)) : 0;
}

// Returns the state of the GPU with this index, which describe() has accepted.
GpuState state_of(const Nvml& nvml, unsigned index, const Gpu& gpu) {
  GpuState state{.uuid = gpu.uuid, .name = gpu.name};
  NvmlDevice device = nullptr;
  if (nvml.device_get_handle_by_index(index, &device) != kNvmlSuccess) return state;
  unsigned long long reasons = 0;
  if (nvml.device_get_clocks_throttle_reasons != nullptr &&
      nvml.device_get_clocks_throttle_reasons(device, &reasons) == kNvmlSuccess) {
    state.is_hot = (reasons & kNvmlSlowdownThermal) != 0;
    state.is_held_by_power = (reasons & kNvmlSlowdownBrake) != 0;
  }
  NvmlMemory memory{};
  if (nvml.device_get_memory_info(device, &memory) == kNvmlSuccess &&
      std::in_range<std::int64_t>(memory.free)) {
    state.memory_free_bytes = static_cast<std::int64_t>(memory.free);
  }
  state.processes = count_processes(nvml, device);
  state.slowed_by_power = slowed_by(nvml, device, kNvmlPolicyPower);
  state.slowed_by_heat = slowed_by(nvml, device, kNvmlPolicyThermal);
  return state;
}

}  // namespace

std::vector<GpuState> read_gpu_states(const char* library) {
  std::vector<GpuState> states;
  void* const opened = open_driver_library(library).handle;
  Nvml nvml;
  if (opened == nullptr || !load_functions(opened, nvml).empty()) return states;
  if (nvml.init() != kNvmlSuccess) return states;
  unsigned count = 0;
  if (nvml.device_get_count(&count) != kNvmlSuccess) count = 0;
  for (unsigned index = 0; index < std::min(count, kMaxGpus); ++index) {
    Gpu gpu;
    if (describe(nvml, index, gpu).empty()) states.push_back(state_of(nvml, index, gpu));
  }
  (void)nvml.shutdown();
  return states;
}

NvmlReport read_nvml(const char* library) {
  NvmlReport report;
  const DriverLibrary opened = open_driver_library(library);
  if (opened.handle == nullptr) {
    const std::string_view text = opened.reason;
    // The library may exist and lack a library that it needs.
    const bool is_missing = text.starts_with(std::string(library) + ":") &&
                            text.find("No such file") != std::string_view::npos;
    report.reason = is_missing ? fmt::format("no NVIDIA driver ({} is missing)", library)
                               : fmt::format("the NVIDIA driver cannot be loaded ({})", text);
    return report;
  }
  Nvml nvml;
  if (const std::string missing = load_functions(opened.handle, nvml); !missing.empty()) {
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
