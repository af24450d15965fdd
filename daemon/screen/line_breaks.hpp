// SPDX-License-Identifier: Apache-2.0
// Where a line of text may be broken. Pure; any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace autotuned::daemon {

// The position of the first blank of `text`, from `from` on, at which the line may be broken; the size of `text` if
// there is none. A figure with its unit stays together: "12.3 %", "1,234 samples/s", "1.35 x", "4 min 05 s", "(1.2 to
// 1.4)".
[[nodiscard]] std::size_t next_break(std::string_view text, std::size_t from);

}  // namespace autotuned::daemon
