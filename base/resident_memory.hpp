// SPDX-License-Identifier: Apache-2.0
// What a process holds in memory just now.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace autotuned {

// Of the whole process, pages of mapped files included; 0 when it is gone.
[[nodiscard]] std::int64_t resident_bytes(pid_t process);

}  // namespace autotuned
