// SPDX-License-Identifier: Apache-2.0
#include "trainer/common/device.hpp"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>

#include "base/machine/cuda_devices.hpp"
#include "base/machine/driver_library.hpp"
#include "base/text.hpp"

namespace autotuned::trainer {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

constexpr const char* kDriver = "libcuda.so.1";
constexpr int kMinCuda = 13000;
constexpr const char* kNumbered = "cuda:";

at::Device parsed(const std::string& device) {
  return at::Device(device);
}

// LibTorch itself only warns, on standard error.
std::string why_no_gpu(void* driver) {
  const int version = read_cuda_version(driver);
  if (version == 0 || version >= kMinCuda) return "the NVIDIA driver shows no GPU";
  return "the NVIDIA driver is too old: it knows CUDA " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10) + ", and LibTorch needs CUDA 13";
}

std::string open_cuda(Devices& devices) {
  const DriverLibrary driver = open_driver_library(kDriver);
  if (driver.handle == nullptr) {
    const bool is_missing = driver.reason.starts_with(std::string(kDriver) + ":") &&
                            driver.reason.find("No such file") != std::string::npos;
    return is_missing ? "no NVIDIA driver"
                      : "the NVIDIA driver cannot be loaded: " + first_line(driver.reason.c_str());
  }
  // CUDA opens these libraries by name when it needs them, which only finds them in the driver's folder.
  for (const char* const other : {"libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"})
    (void)open_driver_library(other);
  // Global: exceptions thrown there are caught here by type.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return "LibTorch's CUDA libraries cannot be loaded: " + first_line(dlerror());
  }
  try {
    const int count = at::accelerator::deviceCount();
    for (int i = 0; i < count; ++i)
      devices.names.push_back("cuda:" + std::to_string(i));
    if (count == 0) return why_no_gpu(driver.handle);
    devices.cuda_uuids = read_cuda_uuids(driver.handle);
    return "";
  } catch (const std::exception& error) {
    return first_line(error.what());
  }
}

const Stat& total(const StatArray& stats) {
  return stats[static_cast<std::size_t>(StatType::AGGREGATE)];
}

}  // namespace

Devices open_devices() {
  Devices devices;
  devices.names = {"cpu"};
  devices.cuda_reason = open_cuda(devices);
  return devices;
}

std::string Devices::uuid_of(const std::string& device) const {
  // The first name is the CPU's, the others are CUDA's in their order.
  const auto found = std::ranges::find(names, device);
  const auto place = static_cast<std::size_t>(found - names.begin());
  return found != names.end() && place >= 1 && place <= cuda_uuids.size() ? cuda_uuids[place - 1]
                                                                          : "";
}

Result<std::string> choose_device(const std::string& wanted, const Devices& devices, int rank,
                                  int ranks) {
  const bool has_cuda = devices.cuda_reason.empty();
  if (wanted == "cpu" || (wanted == "auto" && !has_cuda)) return "cpu";
  if (ranks > 1 && wanted.starts_with(kNumbered)) {
    return fail(ErrorKind::invalid,
                std::to_string(ranks) + " ranks need a GPU each, and " + wanted + " is one",
                "device", "write device: cuda; CUDA_VISIBLE_DEVICES says which GPUs");
  }
  const auto gpus = std::ranges::count_if(
      devices.names, [](const std::string& name) { return name.starts_with(kNumbered); });
  if (has_cuda && ranks > gpus) {
    return fail(ErrorKind::unsupported,
                std::to_string(ranks) + " ranks need a GPU each, and this process sees " +
                    std::to_string(gpus),
                "train.ranks",
                "use " + std::to_string(gpus) + (gpus == 1 ? " rank" : " ranks") +
                    ", or write device: cpu; under srun, --gpu-bind=none shows each task all GPUs");
  }
  const std::string name =
      wanted == "auto" || wanted == "cuda" ? std::string(kNumbered) + std::to_string(rank) : wanted;
  if (std::ranges::find(devices.names, name) != devices.names.end()) return name;
  return fail(ErrorKind::unsupported,
              has_cuda ? "there is no device " + name : "no CUDA: " + devices.cuda_reason, "device",
              "use device: auto or cpu");
}

Result<void> set_cudnn_benchmark(bool is_on) {
  static std::optional<bool> chosen;
  if (chosen && *chosen != is_on) {
    return fail(ErrorKind::invalid, "cannot be changed while the trainer runs", "cudnn.benchmark",
                "start another trainer");
  }
  chosen = is_on;
  at::globalContext().setBenchmarkCuDNN(is_on);
  return {};
}

void allow_deterministic(const std::string& device) {
  if (!parsed(device).is_cpu()) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

int index_of(const std::string& device) {
  return parsed(device).index();
}

std::string libtorch_version() {
  return TORCH_VERSION;
}

std::int64_t device_memory_bytes(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (parsed_device.is_cpu()) return 0;
  return static_cast<std::int64_t>(at::accelerator::getMemoryInfo(parsed_device.index()).second);
}

DeviceMemory device_memory(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (parsed_device.is_cpu()) return {};
  const auto stats = at::accelerator::getDeviceStats(parsed_device.index());
  return {.allocated_bytes = total(stats.allocated_bytes).current,
          .reserved_bytes = total(stats.reserved_bytes).current};
}

std::int64_t device_peak_bytes(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (parsed_device.is_cpu()) return 0;
  return total(at::accelerator::getDeviceStats(parsed_device.index()).allocated_bytes).peak;
}

void reset_device_peak(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (!parsed_device.is_cpu()) at::accelerator::resetPeakStats(parsed_device.index());
}

void release_pinned_cache(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (!parsed_device.is_cpu()) at::getHostAllocator(parsed_device.type())->empty_cache();
}

std::int64_t pinned_memory_bytes(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (parsed_device.is_cpu()) return 0;
  return at::getHostAllocator(parsed_device.type())->get_stats().allocated_bytes.current;
}

void release_device_cache(const std::string& device) {
  if (!parsed(device).is_cpu()) at::accelerator::emptyCache();
}

}  // namespace autotuned::trainer
