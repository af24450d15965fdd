// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/cupti_buffers.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace autotuned::profiler {
namespace {

std::atomic<CuptiBuffers*> installed{nullptr};
std::atomic<int> callbacks_at_work{0};

// Registers a callback before it reads `installed`, so that uninstall() can wait for it.
class Callback {
 public:
  Callback() { callbacks_at_work.fetch_add(1); }
  ~Callback() { callbacks_at_work.fetch_sub(1); }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
};

// Kept in a variable, so that leak detectors find it.
void abandon(std::uint8_t* data) {
  static std::mutex mutex;
  static auto& abandoned = *new std::vector<std::uint8_t*>();
  const std::scoped_lock lock(mutex);
  abandoned.push_back(data);
}

}  // namespace

CuptiBuffers::CuptiBuffers(std::size_t count, std::size_t bytes_each)
    : count_(count), bytes_each_(bytes_each), buffers_(std::make_unique<Buffer[]>(count)) {
  assert(count > 0 && bytes_each > 0 && bytes_each % kAlignment == 0);
  for (std::size_t i = 0; i < count_; ++i) {
    auto* const data = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, bytes_each_));
    if (data == nullptr) {
      while (i > 0)
        std::free(buffers_[--i].data);
      throw std::bad_alloc();
    }
    std::memset(data, 0, bytes_each_);  // also brings it into memory
    buffers_[i].data = data;
  }
}

CuptiBuffers::~CuptiBuffers() {
  for (std::size_t i = 0; i < count_; ++i) {
    if (buffers_[i].state.load() == State::lent) {
      abandon(buffers_[i].data);
    } else {
      std::free(buffers_[i].data);
    }
  }
}

std::uint8_t* CuptiBuffers::lend() noexcept {
  const std::size_t first = next_free_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < count_; ++i) {
    Buffer& buffer = buffers_[(first + i) % count_];
    State expected = State::free;
    if (buffer.state.compare_exchange_strong(expected, State::lent)) return buffer.data;
  }
  refused_.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void CuptiBuffers::accept(std::uint8_t* data, std::size_t valid_bytes) noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    Buffer& buffer = buffers_[i];
    if (buffer.data != data) continue;
    if (buffer.state.load() != State::lent) break;
    buffer.valid_bytes = std::min(valid_bytes, bytes_each_);
    buffer.state.store(State::full);
    wake();
    return;
  }
  foreign_.fetch_add(1, std::memory_order_relaxed);
}

void CuptiBuffers::wake() noexcept {
  change_.fetch_add(1);
  change_.notify_all();
}

std::optional<CuptiBuffers::Full> CuptiBuffers::next() {
  for (std::size_t i = 0; i < count_; ++i) {
    State expected = State::full;
    if (buffers_[i].state.compare_exchange_strong(expected, State::reading)) {
      return Full{i, buffers_[i].data, buffers_[i].valid_bytes};
    }
  }
  return std::nullopt;
}

void CuptiBuffers::give_back(const Full& buffer) {
  Buffer& own = buffers_[buffer.index];
  assert(own.state.load() == State::reading);
  // The whole buffer is zeroed: CUPTI is told that its buffers are zero, and may have begun a record after the valid ones.
  std::memset(own.data, 0, bytes_each_);
  own.state.store(State::free);
}

std::int64_t CuptiBuffers::lent() const {
  return std::count_if(buffers_.get(), buffers_.get() + count_,
                       [](const Buffer& buffer) { return buffer.state.load() == State::lent; });
}

void CuptiBuffers::install() {
  CuptiBuffers* nobody = nullptr;
  [[maybe_unused]] const bool is_only = installed.compare_exchange_strong(nobody, this);
  assert(is_only);
}

void CuptiBuffers::uninstall() {
  CuptiBuffers* self = this;
  installed.compare_exchange_strong(self, nullptr);
  // Callbacks do not block, so this loop is short.
  while (callbacks_at_work.load() > 0)
    std::this_thread::yield();
}

void CuptiBuffers::on_requested(std::uint8_t** buffer, std::size_t* bytes,
                                std::size_t* most_records) {
  const Callback at_work;
  CuptiBuffers* const buffers = installed.load();
  *buffer = buffers != nullptr ? buffers->lend() : nullptr;
  *bytes = *buffer != nullptr ? buffers->bytes_each() : 0;
  *most_records = 0;  // as many as fit
}

void CuptiBuffers::on_completed(CUcontext /*context*/, std::uint32_t /*stream*/,
                                std::uint8_t* buffer, std::size_t /*bytes*/,
                                std::size_t valid_bytes) {
  const Callback at_work;
  if (CuptiBuffers* const buffers = installed.load()) buffers->accept(buffer, valid_bytes);
}

}  // namespace autotuned::profiler
