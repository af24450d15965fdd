// SPDX-License-Identifier: Apache-2.0
// The devices that LibTorch can train on here, and their memory use by this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::trainer {

struct Devices {
  std::vector<std::string> names;  // "cpu", "cuda:0", ...
  std::string cuda_reason;         // why there is no CUDA device; empty when there is one
  // The UUIDs of cuda:0, cuda:1, ..., from base/machine/cuda_devices.hpp; unknown ones are missing at the end.
  std::vector<std::string> cuda_uuids;

  // The UUID of a device name; empty if it is not known.
  [[nodiscard]] std::string uuid_of(const std::string& device) const;
};

// Opens LibTorch's CUDA half when there is a driver. Once per process, before any tensor is made.
[[nodiscard]] Devices open_devices();

// The device that a recipe's `device` (auto, cpu, cuda, cuda:N) means for this rank of so many on this machine, as a
// name in `devices`: on GPUs rank 1 gets cuda:1, because each needs one of its own. ErrorKind::unsupported: it is not
// there, or there are fewer GPUs than ranks; ErrorKind::invalid: several ranks, and one GPU is named.
[[nodiscard]] Result<std::string> choose_device(const std::string& wanted, const Devices& devices,
                                                int rank = 0, int ranks = 1);

// LibTorch's number of a GPU, by its name in Devices.
[[nodiscard]] int index_of(const std::string& device);

[[nodiscard]] std::string libtorch_version();

// Sets the knob cudnn.benchmark, for the life of the process: cuDNN keeps its plans and uses them without reading the
// flag, so a later change would do nothing. ErrorKind::invalid: the process has begun with the other value.
[[nodiscard]] Result<void> set_cudnn_benchmark(bool is_on);

// Sets the variable without which LibTorch's deterministic algorithms refuse cuBLAS (CUBLAS_WORKSPACE_CONFIG), unless
// it is set. Does nothing for the CPU. To be called before the device's first use.
void allow_deterministic(const std::string& device);

// The memory of a device, by its name; 0 for the CPU.
[[nodiscard]] std::int64_t device_memory_bytes(const std::string& device);

// The memory of LibTorch's allocator: in use by tensors (allocated), and taken from the device (reserved). It keeps
// freed memory, so `reserved_bytes` stays as large as for the largest batch so far.
struct DeviceMemory {
  std::int64_t allocated_bytes = 0;
  std::int64_t reserved_bytes = 0;
};
[[nodiscard]] DeviceMemory device_memory(const std::string& device);  // zeros for the CPU
// Largest allocated_bytes since reset_device_peak(); 0 for the CPU.
[[nodiscard]] std::int64_t device_peak_bytes(const std::string& device);
void reset_device_peak(const std::string& device);
// Returns unused cached blocks to the driver; nothing on the CPU.
void release_device_cache(const std::string& device);
// The same for page-locked memory of the host, to the system.
void release_pinned_cache(const std::string& device);
// The page-locked memory of LibTorch's allocator for this device, in use or kept; 0 for the CPU.
[[nodiscard]] std::int64_t pinned_memory_bytes(const std::string& device);

}  // namespace autotuned::trainer
