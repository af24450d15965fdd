// SPDX-License-Identifier: Apache-2.0
// Stands in for libcuda.so.1: a driver with two GPUs.
#include <cuda.h>

#include <cstdio>
#include <map>

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)
#define AUTOTUNED_FAKE extern "C" __attribute__((visibility("default")))

AUTOTUNED_FAKE CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}
AUTOTUNED_FAKE CUresult cuDeviceGetCount(int* count) {
  *count = 2;
  return CUDA_SUCCESS;
}
AUTOTUNED_FAKE CUresult cuDeviceGet(CUdevice* device, int number) {
  *device = 100 + number;
  return CUDA_SUCCESS;
}
AUTOTUNED_FAKE CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU \"%d\"", device - 100);
  return CUDA_SUCCESS;
}
AUTOTUNED_FAKE CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  *bytes = std::size_t{80} << 30U;
  return CUDA_SUCCESS;
}
AUTOTUNED_FAKE CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  static const std::map<CUdevice_attribute, int> kKnown = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32}};
  const auto found = kKnown.find(which);
  if (found == kKnown.end()) return CUDA_ERROR_INVALID_VALUE;
  *value = found->second;
  return CUDA_SUCCESS;
}
// NOLINTEND(readability-identifier-naming)
