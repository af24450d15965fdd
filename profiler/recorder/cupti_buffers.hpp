// SPDX-License-Identifier: Apache-2.0
// The buffers into which CUPTI writes its records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "profiler/recorder/cupti_api.hpp"

namespace autotuned::profiler {

// A fixed number of buffers, zeroed and in memory from the beginning, because CUPTI requests them on the
// thread that launches work. A buffer is free, lent to CUPTI, or full; a full one goes to the reader, which
// zeroes it and makes it free again. If none is free, CUPTI gets none and drops the record.
class CuptiBuffers {
 public:
  struct Full {
    std::size_t index = 0;
    std::uint8_t* data = nullptr;
    std::size_t bytes = 0;  // valid bytes, as CUPTI reports; never more than a buffer has
  };

  // REQUIRES: both are positive, bytes_each is a multiple of kAlignment. Throws std::bad_alloc.
  CuptiBuffers(std::size_t count, std::size_t bytes_each);
  // Does not free memory that CUPTI still has, because CUPTI may write to it.
  ~CuptiBuffers();
  CuptiBuffers(const CuptiBuffers&) = delete;
  CuptiBuffers& operator=(const CuptiBuffers&) = delete;

  static constexpr std::size_t kAlignment = 4096;
  [[nodiscard]] std::size_t bytes_each() const { return bytes_each_; }

  // CUPTI calls these on any thread. They neither block, nor allocate, nor throw.
  [[nodiscard]] std::uint8_t* lend() noexcept;  // null: none is free
  void accept(std::uint8_t* data, std::size_t valid_bytes) noexcept;

  // Returns a full buffer, in no order; nothing if there is none. One reader at a time.
  [[nodiscard]] std::optional<Full> next();
  void give_back(const Full& buffer);

  // Changes with every accept() and wake(); wait() returns once it is no longer `seen`.
  [[nodiscard]] std::uint64_t change() const { return change_.load(); }
  void wait(std::uint64_t seen) const { change_.wait(seen); }
  void wake() noexcept;

  [[nodiscard]] std::int64_t lent() const;  // number of buffers that CUPTI has now
  [[nodiscard]] std::int64_t refused() const { return refused_.load(); }
  // Buffers that came back and were never lent: another user of CUPTI in this process.
  [[nodiscard]] std::int64_t foreign() const { return foreign_.load(); }

  // CUPTI's callbacks have no object pointer: they serve the one installed object. At most one at a time.
  void install();
  // Returns when no callback uses this object any more.
  void uninstall();
  static void on_requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);
  static void on_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                           std::size_t bytes, std::size_t valid_bytes);

 private:
  enum class State : std::uint8_t { free, lent, full, reading };
  struct Buffer {
    std::uint8_t* data = nullptr;
    std::size_t valid_bytes = 0;  // written before the state becomes full
    std::atomic<State> state{State::free};
  };

  std::size_t count_;
  std::size_t bytes_each_;
  std::unique_ptr<Buffer[]> buffers_;
  std::atomic<std::size_t> next_free_{0};  // where to look for a free one first
  std::atomic<std::uint64_t> change_{0};
  std::atomic<std::int64_t> refused_{0};
  std::atomic<std::int64_t> foreign_{0};
};

}  // namespace autotuned::profiler
