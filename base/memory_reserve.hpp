// SPDX-License-Identifier: Apache-2.0
// A reserve of memory for libraries that allocate small blocks in functions that may not throw.
#pragma once

#include <cstddef>
#include <new>

namespace autotuned {

// Holds memory back. The first operator new that finds no memory, in any thread, frees this reserve and then succeeds. This
// works once. At most one object at a time in a process.
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
