// SPDX-License-Identifier: Apache-2.0
// Stands in for libcuda.so.1. The environment variable FAKE_CUDA holds the number of GPUs, and optionally the name of
// a call that fails: "2 cuInit".
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kFailure = 999;  // CUDA_ERROR_UNKNOWN
constexpr int kFirstDevice = 100;

struct Script {
  int gpus = 0;
  char call[96] = "";
};

int result_of(const char* call) {
  Script script;
  const char* const text = std::getenv("FAKE_CUDA");
  if (text != nullptr) (void)std::sscanf(text, "%d %95s", &script.gpus, script.call);
  return std::strcmp(script.call, call) == 0 ? kFailure : 0;
}

int gpus() {
  const char* const text = std::getenv("FAKE_CUDA");
  return text != nullptr ? std::atoi(text) : 0;
}

struct Uuid {
  unsigned char bytes[16];
};

}  // namespace

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)
#define AUTOTUNED_FAKE extern "C" __attribute__((visibility("default")))

AUTOTUNED_FAKE int cuDriverGetVersion(int* version) {
  *version = 12040;
  return result_of("cuDriverGetVersion");
}
AUTOTUNED_FAKE int cuInit(unsigned) {
  return result_of("cuInit");
}
AUTOTUNED_FAKE int cuDeviceGetCount(int* count) {
  *count = gpus();
  return result_of("cuDeviceGetCount");
}
AUTOTUNED_FAKE int cuDeviceGet(int* device, int number) {
  *device = kFirstDevice + number;
  return result_of("cuDeviceGet");
}
// The bytes 0, 1, 2, … and the number of the device as the last.
AUTOTUNED_FAKE int cuDeviceGetUuid_v2(Uuid* uuid, int device) {
  for (unsigned char i = 0; i < 16; ++i)
    uuid->bytes[i] = i;
  uuid->bytes[15] = static_cast<unsigned char>(device - kFirstDevice + 0xa0);
  return result_of("cuDeviceGetUuid_v2");
}
// NOLINTEND(readability-identifier-naming)
