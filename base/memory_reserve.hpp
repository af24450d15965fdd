// SPDX-License-Identifier: Apache-2.0
// A reserve of memory for libraries that allocate a little in functions that may not throw.
#pragma once

#include <cstddef>
#include <new>

namespace autotuned {

// While it lives, it frees its bytes as soon as operator new finds no memory in any thread, so that new succeeds; once.
// One at a time in a process.
class MemoryReserve {
 public:
  explicit MemoryReserve(std::size_t bytes);  // throws std::bad_alloc
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

 private:
  std::new_handler before_;
};

}  // namespace autotuned
