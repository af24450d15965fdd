// SPDX-License-Identifier: Apache-2.0
// Why a GPU had no memory left, by the figures that LibTorch's allocator tells, and what helps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::trainer {

// Bytes; 0: not told.
struct MemoryShortage {
  std::int64_t wanted = 0;
  std::int64_t device_total = 0;
  std::int64_t device_free = 0;
  std::int64_t own = 0;  // what this process has of the device
  std::int64_t unused =
      0;  // of that what the allocator keeps and no tensor uses, after it gave back whole pieces
};

// The figures in "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of ..."; nothing for another
// message.
[[nodiscard]] std::optional<MemoryShortage> memory_shortage_from(std::string_view message);

// ErrorKind::out_of_memory with these figures in one clause. The remedy is for what was missing: memory in one piece, what
// other programs have, or else a smaller batch.
[[nodiscard]] Error to_error(const MemoryShortage& shortage, std::string where);

}  // namespace autotuned::trainer
