// SPDX-License-Identifier: Apache-2.0
// The part of SHA-256 that takes time. Private to digest.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autotuned {

// Takes `blocks` blocks of 64 bytes into the state.
using Sha256Blocks = void (*)(std::uint32_t* state, const std::uint8_t* data, std::size_t blocks);

// Any CPU.
void sha256_blocks_plain(std::uint32_t* state, const std::uint8_t* data, std::size_t blocks);
// With the CPU's own instructions for it; null where it has none. Eight times the speed.
[[nodiscard]] Sha256Blocks sha256_blocks_of_cpu();

}  // namespace autotuned
