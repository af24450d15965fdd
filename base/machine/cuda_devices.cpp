// SPDX-License-Identifier: Apache-2.0
#include "base/machine/cuda_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/function_lookup.hpp"

namespace autotuned {
namespace {

// The part of cuda.h that is needed. These signatures never change: the driver adds a function with a new suffix.
struct CudaUuid {
  std::array<unsigned char, 16> bytes;
};
constexpr int kCudaSuccess = 0;
constexpr int kMaxDevices = 1024;  // a larger count is taken for an error

struct Cuda {
  int (*init)(unsigned) = nullptr;
  int (*device_get_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_get_uuid)(CudaUuid*, int) = nullptr;
};

std::string text_of(const CudaUuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

}  // namespace

int read_cuda_version(void* driver) {
  int (*get_version)(int*) = nullptr;
  FunctionLookup(driver).find(get_version, "cuDriverGetVersion");
  int version = 0;
  return get_version != nullptr && get_version(&version) == kCudaSuccess ? version : 0;
}

std::vector<std::string> read_cuda_uuids(void* driver) {
  Cuda cuda;
  FunctionLookup functions(driver);
  functions.find(cuda.init, "cuInit");
  functions.find(cuda.device_get_count, "cuDeviceGetCount");
  functions.find(cuda.device_get, "cuDeviceGet");
  // The first version of the function returns the UUID of the whole GPU for a part of a GPU, too.
  functions.find(cuda.device_get_uuid, "cuDeviceGetUuid_v2");
  if (cuda.device_get_uuid == nullptr) functions.find(cuda.device_get_uuid, "cuDeviceGetUuid");
  if (cuda.init == nullptr || cuda.device_get_count == nullptr || cuda.device_get == nullptr ||
      cuda.init(0) != kCudaSuccess) {
    return {};
  }
  int count = 0;
  if (cuda.device_get_count(&count) != kCudaSuccess) return {};
  std::vector<std::string> uuids(static_cast<std::size_t>(std::clamp(count, 0, kMaxDevices)));
  for (std::size_t i = 0; i < uuids.size() && cuda.device_get_uuid != nullptr; ++i) {
    int device = 0;
    CudaUuid uuid{};
    if (cuda.device_get(&device, static_cast<int>(i)) == kCudaSuccess &&
        cuda.device_get_uuid(&uuid, device) == kCudaSuccess) {
      uuids[i] = text_of(uuid);
    }
  }
  return uuids;
}

}  // namespace autotuned
