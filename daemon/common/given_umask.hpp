// SPDX-License-Identifier: Apache-2.0
// The umask with which the user started this program. main() makes a stricter one of it for what we write; a script of the
// user writes with the user's own.
#pragma once

#include <sys/types.h>

namespace autotuned::daemon {

// Once, by main().
void remember_given_umask(mode_t mask);
[[nodiscard]] mode_t given_umask();

}  // namespace autotuned::daemon
