// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/cupti_occupancy.hpp"

#include <cuda_occupancy.h>

#include <algorithm>
#include <climits>
#include <map>
#include <tuple>

namespace autotuned::profiler {
namespace {

double product_of(const std::array<std::int32_t, 3>& sizes) {
  // A floating-point number, because a grid may have more blocks than 64 bits can count.
  double product = 1;
  for (const std::int32_t size : sizes)
    product *= std::max(size, 0);
  return product;
}

cudaOccDeviceProp properties_of(const RecordedDevice& device) {
  const auto bytes = [](std::int64_t value) {
    return static_cast<std::size_t>(std::max<std::int64_t>(value, 0));
  };
  cudaOccDeviceProp properties;
  properties.computeMajor = device.compute_major;
  properties.computeMinor = device.compute_minor;
  properties.maxThreadsPerBlock = device.max_threads_per_block;
  properties.maxThreadsPerMultiprocessor = device.max_threads_per_multiprocessor;
  properties.regsPerBlock = device.registers_per_block;
  properties.regsPerMultiprocessor = device.registers_per_multiprocessor;
  properties.warpSize = device.warp_size;
  properties.sharedMemPerBlock = bytes(device.shared_bytes_per_block);
  properties.sharedMemPerMultiprocessor = bytes(device.shared_bytes_per_multiprocessor);
  properties.numSms = device.multiprocessors;
  properties.sharedMemPerBlockOptin = bytes(device.shared_bytes_per_block_optin);
  properties.reservedSharedMemPerBlock = bytes(device.reserved_shared_bytes_per_block);
  return properties;
}

// Returns 0 if the calculation does not cover the device, or if the kernel cannot run there.
int most_blocks_per_sm(const cudaOccDeviceProp& properties, const DeviceKernel& kernel,
                       int threads) {
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = INT_MAX;
  attributes.numRegs = kernel.registers_per_thread;
  attributes.sharedSizeBytes = static_cast<std::size_t>(std::max(kernel.static_shared_bytes, 0));
  attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
  const auto dynamic_bytes = static_cast<std::size_t>(std::max(kernel.dynamic_shared_bytes, 0));
  if (kernel.opts_in_shared) {
    attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    attributes.maxDynamicSharedSizeBytes = dynamic_bytes;
  }
  const cudaOccDeviceState state;
  cudaOccResult result{};
  const cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(
      &result, &properties, &attributes, &state, threads, dynamic_bytes);
  return error == CUDA_OCC_SUCCESS ? std::max(result.activeBlocksPerMultiprocessor, 0) : 0;
}

}  // namespace

void estimate_occupancy(DeviceTimeline& timeline, const std::vector<RecordedDevice>& devices) {
  struct Known {
    const RecordedDevice* device = nullptr;
    cudaOccDeviceProp properties;
  };
  std::map<std::uint32_t, Known> known;
  for (const RecordedDevice& device : devices) {
    if (device.multiprocessors > 0 && device.warp_size > 0 &&
        device.max_threads_per_multiprocessor > 0) {
      known[static_cast<std::uint32_t>(device.id)] = {&device, properties_of(device)};
    }
  }
  // Results are cached, because training steps launch the same shapes again and again.
  using Shape = std::tuple<std::uint32_t, std::uint16_t, std::int32_t, std::int32_t, bool, int>;
  std::map<Shape, int> blocks_of_shape;
  for (DeviceKernel& kernel : timeline.kernels) {
    const auto found = known.find(kernel.device);
    if (found == known.end()) continue;
    const RecordedDevice& device = *found->second.device;
    const double threads = product_of(kernel.block);
    const double blocks_per_sm = product_of(kernel.grid) / device.multiprocessors;
    kernel.blocks_per_sm = static_cast<float>(blocks_per_sm);
    kernel.warps_per_sm = static_cast<float>(blocks_per_sm * threads / device.warp_size);
    if (threads < 1 || threads > device.max_threads_per_block) continue;
    const int whole_threads = static_cast<int>(threads);
    const Shape shape{kernel.device,
                      kernel.registers_per_thread,
                      kernel.static_shared_bytes,
                      kernel.dynamic_shared_bytes,
                      kernel.opts_in_shared,
                      whole_threads};
    const auto [most, is_new] = blocks_of_shape.try_emplace(shape, 0);
    if (is_new) most->second = most_blocks_per_sm(found->second.properties, kernel, whole_threads);
    if (most->second == 0) continue;
    const double resident = std::min(blocks_per_sm, static_cast<double>(most->second));
    kernel.occupancy_percent = static_cast<float>(
        std::min(100.0, 100.0 * resident * threads / device.max_threads_per_multiprocessor));
  }
}

}  // namespace autotuned::profiler
