// SPDX-License-Identifier: Apache-2.0
// The size of a picture by the first bytes of its file, for a first guess before a trainer has looked at the data.
#pragma once

#include <cstdint>
#include <string_view>

namespace autotuned::daemon {

// So many bytes tell the size of nearly every JPEG file; those with larger previews in front tell nothing.
inline constexpr std::size_t kPictureHeaderBytes = std::size_t{64} << 10;

// In pixels, of a JPEG or PNG file; 0 where these bytes do not tell.
[[nodiscard]] int shorter_side(std::string_view first_bytes);

}  // namespace autotuned::daemon
