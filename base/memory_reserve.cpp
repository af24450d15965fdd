// SPDX-License-Identifier: Apache-2.0
#include "base/memory_reserve.hpp"

#include <atomic>
#include <cstdlib>

namespace autotuned {
namespace {

std::atomic<void*> laid_by = nullptr;

void give_back() {
  void* const memory = laid_by.exchange(nullptr);
  if (memory == nullptr) throw std::bad_alloc();
  std::free(memory);
}

}  // namespace

MemoryReserve::MemoryReserve(std::size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  laid_by = memory;
  before_ = std::set_new_handler(give_back);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(before_);
  std::free(laid_by.exchange(nullptr));
}

}  // namespace autotuned
