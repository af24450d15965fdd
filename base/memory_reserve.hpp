// SPDX-License-Identifier: Apache-2.0
// Memory for those who cannot do without: libraries that ask for a little of it where they may not throw.
#pragma once

#include <cstddef>
#include <new>

namespace autotuned {

// While it lives, what it has laid by is given back as soon as operator new finds no memory, so that new finds that;
// once, whichever thread it is. One at a time in a process.
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
