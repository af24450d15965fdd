// SPDX-License-Identifier: Apache-2.0
// Devices that LibTorch can train on here, and what the process uses of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::trainer {

struct Devices {
  std::vector<std::string> names;  // "cpu", "cuda:0", ...
  std::string cuda_reason;         // why there is no CUDA device; empty when there is one
  // Of cuda:0, cuda:1, ..., as base/machine/cuda_devices.hpp tells them; fewer or empty: not known.
  std::vector<std::string> cuda_uuids;

  // Of a name; empty when it is not known.
  [[nodiscard]] std::string uuid_of(const std::string& device) const;
};

// Opens LibTorch's CUDA half when there is a driver. Once per process, before any tensor is made.
[[nodiscard]] Devices open_devices();

// The device that a recipe's `device` (auto, cpu, cuda, cuda:N) means: a name out of `devices`.
// ErrorKind::unsupported when it is not there.
[[nodiscard]] Result<std::string> choose_device(const std::string& wanted, const Devices& devices);

[[nodiscard]] std::string libtorch_version();

// The knob cudnn.benchmark, for the life of the process: cuDNN's plans are kept, and looked up before the flag is
// looked at, so that a later change would do nothing. ErrorKind::invalid: the process has begun with the other value.
[[nodiscard]] Result<void> set_cudnn_benchmark(bool is_on);

// cuBLAS sums in a fixed order only if the environment says how much memory it may take for that, and LibTorch's deterministic
// algorithms refuse to go on without. Sets the variable where nobody has; nothing for the CPU. Before the device's first use.
void allow_deterministic(const std::string& device);

// Of a device name; 0 for the CPU.
[[nodiscard]] std::int64_t device_memory_bytes(const std::string& device);

// What LibTorch's allocator has given to tensors, and what it has taken from the device for that. It keeps what was
// freed, so the second is as large as the largest batch that the process ever saw.
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

}  // namespace autotuned::trainer
