// SPDX-License-Identifier: Apache-2.0
// Reads the size of a picture from the first bytes of its file, for a first guess without a trainer.
#pragma once

#include <cstdint>
#include <string_view>

namespace autotuned::daemon {

// Enough bytes for nearly every JPEG file; a larger preview in front of the size hides it.
inline constexpr std::size_t kPictureHeaderBytes = std::size_t{64} << 10;

// The shorter side of a JPEG or PNG picture, in pixels; 0 if these bytes do not tell.
[[nodiscard]] int shorter_side(std::string_view first_bytes);

}  // namespace autotuned::daemon
