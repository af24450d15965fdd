// SPDX-License-Identifier: Apache-2.0
// The umask with which the user started this program. main() sets a stricter one for our own files; the user's script
// gets this one.
#pragma once

#include <sys/types.h>

namespace autotuned::daemon {

// Called once, by main().
void remember_given_umask(mode_t mask);
[[nodiscard]] mode_t given_umask();

}  // namespace autotuned::daemon
