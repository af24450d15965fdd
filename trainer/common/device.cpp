// SPDX-License-Identifier: Apache-2.0
#include "trainer/common/device.hpp"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <algorithm>
#include <exception>

namespace autotuned::trainer {
namespace {

at::Device parsed(const std::string& device) {
  return at::Device(device);
}

// The first line of what a library has to say, which may be a page long.
std::string first_line(const char* text) {
  const std::string all = text != nullptr ? text : "unknown error";
  return all.substr(0, all.find('\n'));
}

std::string open_cuda(std::vector<std::string>& names) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) return "no NVIDIA driver";
  // Global: exceptions thrown there are caught here by type.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return "LibTorch's CUDA libraries cannot be loaded: " + first_line(dlerror());
  }
  try {
    const int count = at::accelerator::deviceCount();
    for (int i = 0; i < count; ++i)
      names.push_back("cuda:" + std::to_string(i));
    return count > 0 ? "" : "the NVIDIA driver shows no GPU";
  } catch (const std::exception& error) {
    return first_line(error.what());
  }
}

}  // namespace

Devices open_devices() {
  Devices devices;
  devices.names = {"cpu"};
  devices.cuda_reason = open_cuda(devices.names);
  return devices;
}

Result<std::string> choose_device(const std::string& wanted, const Devices& devices) {
  const bool has_cuda = devices.cuda_reason.empty();
  if (wanted == "auto") return has_cuda ? "cuda:0" : "cpu";
  const std::string name = wanted == "cuda" ? "cuda:0" : wanted;
  if (std::ranges::find(devices.names, name) != devices.names.end()) return name;
  return fail(ErrorKind::unsupported,
              has_cuda ? "there is no device " + name : "no CUDA: " + devices.cuda_reason, "device",
              "use device: auto or cpu");
}

std::string libtorch_version() {
  return TORCH_VERSION;
}

std::int64_t device_memory_bytes(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (parsed_device.is_cpu()) return 0;
  return static_cast<std::int64_t>(at::accelerator::getMemoryInfo(parsed_device.index()).second);
}

std::int64_t device_peak_bytes(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (parsed_device.is_cpu()) return 0;
  const auto stats = at::accelerator::getDeviceStats(parsed_device.index());
  return stats.reserved_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)]
      .peak;
}

void reset_device_peak(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (!parsed_device.is_cpu()) at::accelerator::resetPeakStats(parsed_device.index());
}

void release_pinned_cache(const std::string& device) {
  const at::Device parsed_device = parsed(device);
  if (!parsed_device.is_cpu()) at::getHostAllocator(parsed_device.type())->empty_cache();
}

void release_device_cache(const std::string& device) {
  if (!parsed(device).is_cpu()) at::accelerator::emptyCache();
}

}  // namespace autotuned::trainer
