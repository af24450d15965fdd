// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/cupti_devices.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "base/function_lookup.hpp"

namespace autotuned::profiler {
namespace {

constexpr int kMaxDevices = 1024;  // a larger count is taken for an error

struct Driver {
  decltype(&cuInit) init = nullptr;
  decltype(&cuDeviceGetCount) get_count = nullptr;
  decltype(&cuDeviceGet) get = nullptr;
  decltype(&cuDeviceGetName) get_name = nullptr;
  decltype(&cuDeviceTotalMem) get_memory = nullptr;
  decltype(&cuDeviceGetAttribute) get_attribute = nullptr;

  // Returns the name of the first function that is missing; empty if there is none.
  std::string load(void* library) {
    FunctionLookup functions(library);
    functions.find(init, "cuInit");
    functions.find(get_count, "cuDeviceGetCount");
    functions.find(get, "cuDeviceGet");
    functions.find(get_name, "cuDeviceGetName");
    functions.find(get_memory, "cuDeviceTotalMem_v2");
    functions.find(get_attribute, "cuDeviceGetAttribute");
    return functions.first_missing();
  }
};

tl::unexpected<Error> refused(const char* call, CUresult code) {
  return fail(ErrorKind::unsupported,
              std::string("the driver refuses ") + call + " (error " + std::to_string(code) + ")");
}

RecordedDevice describe(const Driver& driver, int number, CUdevice handle) {
  // An attribute that an older driver lacks stays 0.
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return driver.get_attribute(&value, which, handle) == CUDA_SUCCESS ? value : 0;
  };
  RecordedDevice device{.id = number};
  std::array<char, 256> name{};
  if (driver.get_name(name.data(), static_cast<int>(name.size()) - 1, handle) == CUDA_SUCCESS) {
    device.name = name.data();
  }
  std::size_t bytes = 0;
  if (driver.get_memory(&bytes, handle) == CUDA_SUCCESS) {
    device.memory_bytes = static_cast<std::int64_t>(bytes);
  }
  device.compute_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  device.compute_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  device.max_threads_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  device.max_threads_per_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  device.registers_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  device.registers_per_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  device.warp_size = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  device.shared_bytes_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  device.shared_bytes_per_block_optin =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  device.shared_bytes_per_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  device.reserved_shared_bytes_per_block =
      attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  device.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  return device;
}

}  // namespace

Result<std::vector<RecordedDevice>> read_cuda_devices(const char* library) {
  // The library stays open, because drivers cannot be closed safely.
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail(ErrorKind::unsupported, "no NVIDIA driver");
  Driver driver;
  if (const std::string missing = driver.load(handle); !missing.empty()) {
    return fail(ErrorKind::unsupported, "the driver lacks " + missing, library);
  }
  if (const CUresult code = driver.init(0); code != CUDA_SUCCESS) return refused("cuInit", code);
  int count = 0;
  if (const CUresult code = driver.get_count(&count); code != CUDA_SUCCESS) {
    return refused("cuDeviceGetCount", code);
  }
  std::vector<RecordedDevice> devices;
  for (int number = 0; number < std::min(count, kMaxDevices); ++number) {
    CUdevice device = 0;
    if (const CUresult code = driver.get(&device, number); code != CUDA_SUCCESS) {
      return refused("cuDeviceGet", code);
    }
    devices.push_back(describe(driver, number, device));
  }
  return devices;
}

}  // namespace autotuned::profiler
