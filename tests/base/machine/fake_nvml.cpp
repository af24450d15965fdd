// SPDX-License-Identifier: Apache-2.0
// Stands in for libnvidia-ml.so.1. The environment variable FAKE_NVML holds the number of GPUs, and
// optionally the name of a call and the code with which it fails: "2 nvmlInit_v2 9".
// With a third number, the call fails for the GPU of that index only.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Script {
  unsigned gpus = 0;
  char call[96] = "";
  int code = 0;
  int index = -1;
};

Script script() {
  Script read;
  const char* text = std::getenv("FAKE_NVML");
  if (text != nullptr) {
    (void)std::sscanf(text, "%u %95s %d %d", &read.gpus, read.call, &read.code, &read.index);
  }
  return read;
}

int result_of(const char* call, int index = -1) {
  const Script read = script();
  const bool is_meant =
      std::strcmp(read.call, call) == 0 && (read.index < 0 || read.index == index);
  return is_meant ? read.code : 0;
}

// Handles are indices, counted from 1 so that none is null.
void* handle_of(unsigned index) {
  return reinterpret_cast<void*>(std::size_t{index} + 1);
}
int index_of(void* handle) {
  return static_cast<int>(reinterpret_cast<std::size_t>(handle)) - 1;
}

}  // namespace

// The names are NVML's.
// NOLINTBEGIN(readability-identifier-naming)
#define AUTOTUNED_FAKE extern "C" __attribute__((visibility("default")))

AUTOTUNED_FAKE int nvmlInit_v2() {
  return result_of("nvmlInit_v2");
}
AUTOTUNED_FAKE int nvmlShutdown() {
  return 0;
}
AUTOTUNED_FAKE const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : code == 15 ? "GPU is lost" : nullptr;
}
AUTOTUNED_FAKE int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  (void)std::snprintf(text, length, "580.65.06");
  return result_of("nvmlSystemGetDriverVersion");
}
AUTOTUNED_FAKE int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = script().gpus;
  return result_of("nvmlDeviceGetCount_v2");
}
AUTOTUNED_FAKE int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = handle_of(index);
  return result_of("nvmlDeviceGetHandleByIndex_v2", static_cast<int>(index));
}
#ifndef AUTOTUNED_FAKE_WITHOUT_UUID
AUTOTUNED_FAKE int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  (void)std::snprintf(text, length, "GPU-%d", index_of(device));
  return result_of("nvmlDeviceGetUUID", index_of(device));
}
#endif
AUTOTUNED_FAKE int nvmlDeviceGetName(void* device, char* text, unsigned length) {
  // Fills the buffer to its end without a terminator, as a careless library would.
  if (std::getenv("FAKE_NVML_LONG_NAME") != nullptr) {
    std::memset(text, 'x', length);
  } else {
    (void)std::snprintf(text, length, "Fake GPU %d", index_of(device));
  }
  return result_of("nvmlDeviceGetName", index_of(device));
}
AUTOTUNED_FAKE int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const int code = result_of("nvmlDeviceGetMemoryInfo", index_of(device));
  if (code == 0) *memory = Memory{80ULL << 30U, 79ULL << 30U, 1ULL << 30U};
  if (std::getenv("FAKE_NVML_MUCH_MEMORY") != nullptr) memory->total = ~0ULL;
  return code;
}
AUTOTUNED_FAKE int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return result_of("nvmlDeviceGetCudaComputeCapability", index_of(device));
}
#ifndef AUTOTUNED_FAKE_WITHOUT_STATE
// What disturbs: FAKE_NVML_STATE holds the number of processes, the reasons for which clocks are lowered, and
// the nanoseconds lost to power and to heat.
struct Process {
  unsigned pid;
  unsigned long long used_gpu_memory;
  unsigned gpu_instance_id;
  unsigned compute_instance_id;
};
struct Violation {
  unsigned long long reference_time_us;
  unsigned long long violation_time_ns;
};
struct Disturbance {
  unsigned processes = 0;
  unsigned long long reasons = 0;
  unsigned long long power_ns = 0;
  unsigned long long heat_ns = 0;
};
static Disturbance disturbance() {
  Disturbance read;
  const char* text = std::getenv("FAKE_NVML_STATE");
  if (text != nullptr) {
    (void)std::sscanf(text, "%u %llx %llu %llu", &read.processes, &read.reasons, &read.power_ns,
                      &read.heat_ns);
  }
  return read;
}
AUTOTUNED_FAKE int nvmlDeviceGetCurrentClocksThrottleReasons(void* device,
                                                             unsigned long long* reasons) {
  *reasons = disturbance().reasons;
  return result_of("nvmlDeviceGetCurrentClocksThrottleReasons", index_of(device));
}
AUTOTUNED_FAKE int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                                           Process* processes) {
  const unsigned running = disturbance().processes;
  const unsigned room = *count;
  *count = running;
  if (running > room) return 7;
  for (unsigned i = 0; i < running; ++i)
    processes[i] = Process{1000 + i, 1ULL << 30U, 0, 0};
  return result_of("nvmlDeviceGetComputeRunningProcesses_v3", index_of(device));
}
AUTOTUNED_FAKE int nvmlDeviceGetViolationStatus(void* device, int policy, Violation* violation) {
  const Disturbance now = disturbance();
  *violation = Violation{1, policy == 0 ? now.power_ns : now.heat_ns};
  return result_of("nvmlDeviceGetViolationStatus", index_of(device));
}
#endif
// NOLINTEND(readability-identifier-naming)
