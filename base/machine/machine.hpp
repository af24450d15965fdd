// SPDX-License-Identifier: Apache-2.0
// The machine, and the part of it that this process may use. Read once; needs neither LibTorch nor CUDA.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace autotuned {

struct Gpu {
  std::string uuid;
  std::string name;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  std::int64_t memory_bytes = 0;  // 0: no memory of its own, or the driver does not report it
};

struct Machine {
  std::string cpu_model;
  int cpus_allowed = 1;                   // affinity mask and cgroup quota (v1 and v2), at least 1
  int physical_cores = 1;                 // among the allowed CPUs
  std::int64_t memory_allowed_bytes = 0;  // physical memory or the cgroup's limit
  // The features of known_cpu_features() that the CPU has, sorted.
  std::vector<std::string> cpu_features;
  std::vector<Gpu> gpus;   // through NVML, opened at run time; empty without a driver
  std::string gpu_driver;  // "580.65.06"; empty without a driver
  // Why there is no GPU, or why one was left out: "no NVIDIA driver (libnvidia-ml.so.1 is missing)"; else
  // empty.
  std::string gpu_reason;
  std::string kernel;  // "Linux 6.1.0-18-amd64"
  // For each memory allocator (base/machine/allocator_library.hpp): why it cannot be used; empty if it can.
  std::map<std::string, std::string> allocators;

  [[nodiscard]] bool has_cpu_feature(std::string_view name) const;
  [[nodiscard]] Json to_json() const;
  // The key under which a best configuration is stored: CPU model, CPUs and memory allowed, GPU, driver major
  // version and LibTorch version. 16 hexadecimal digits.
  [[nodiscard]] std::string key(std::string_view libtorch_version) const;
};

// The CPUs of the affinity mask, read from /proc below `root`.
[[nodiscard]] std::vector<int> allowed_cpus_below(const std::string& root);

// Every CPU feature that matters to training, sorted: the values that Machine::cpu_features may have.
[[nodiscard]] std::span<const std::string_view> known_cpu_features();

[[nodiscard]] Machine detect_machine();
// The same for tests: reads /proc and /sys below another root, and leaves out GPUs and allocators.
[[nodiscard]] Machine detect_machine_below(const std::string& root);

}  // namespace autotuned
