// SPDX-License-Identifier: Apache-2.0
// Explains why a GPU had no memory left, from the figures in LibTorch's message, and what helps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::trainer {

// All in bytes; 0: the message does not say.
struct MemoryShortage {
  std::int64_t wanted = 0;
  std::int64_t device_total = 0;
  std::int64_t device_free = 0;
  std::int64_t own = 0;  // what this process has of the device
  std::int64_t unused =
      0;  // the part of `own` that the allocator keeps and no tensor uses, after it gave back whole pieces
};

// The figures in "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of ..."; nothing for another
// message.
[[nodiscard]] std::optional<MemoryShortage> memory_shortage_from(std::string_view message);

// ErrorKind::out_of_memory with these figures in one clause. The remedy fits the cause: fragmented memory, memory of
// other programs, or else a batch that is too large.
[[nodiscard]] Error to_error(const MemoryShortage& shortage, std::string where);

}  // namespace autotuned::trainer
