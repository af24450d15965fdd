// SPDX-License-Identifier: Apache-2.0
// CPU time and memory of this process, and the knobs of its memory allocator. Linux and glibc.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace autotuned::trainer {

// CPU time of all threads of the process.
[[nodiscard]] std::int64_t process_cpu_ns();

// The kernel's counters for this process so far.
struct KernelUse {
  std::int64_t cpu_ns = 0;         // of all threads, in the kernel
  std::int64_t page_faults = 0;    // minor ones, which need no disk
  std::int64_t storage_bytes = 0;  // read from storage for it, rather than found in memory
};
[[nodiscard]] KernelUse kernel_use();

// The memory that is still available without taking any from others, in bytes, at most `allowed_bytes`.
[[nodiscard]] std::int64_t available_memory_bytes(std::int64_t allowed_bytes);

// Largest resident memory since the last start(), of the whole process. Where the kernel does not let
// us reset its own record, the larger of the two values at start() and at peak_bytes().
class HostMemoryPeak {
 public:
  void start();
  [[nodiscard]] std::int64_t peak_bytes() const;

 private:
  bool is_reset_ = false;
  std::int64_t at_start_bytes_ = 0;
};

// Sets the knob memory.malloc: "default" is glibc's policy; with "keep", glibc keeps large blocks for the next step,
// because returning them to the system costs a page fault per 4 KiB in every step. ErrorKind::invalid: a change from
// "keep" back to "default", which is not possible in the same process.
[[nodiscard]] Result<void> set_malloc_policy(const std::string& policy);

// The allocator behind malloc() in this process: "jemalloc", "tcmalloc", or "glibc" for all others.
[[nodiscard]] std::string allocator_in_use();
// Checks the knob memory.allocator. The process that starts the trainer preloads the library, and the dynamic
// linker goes on without a library that it cannot load. ErrorKind::invalid: another allocator is in use, or
// memory.malloc is `policy`, which only the C library supports.
[[nodiscard]] Result<void> check_allocator(const std::string& allocator, const std::string& policy);

}  // namespace autotuned::trainer
