// SPDX-License-Identifier: Apache-2.0
// The long functions of the SDK for all built-in plugins, which only declare them (situation.hpp).
#define AUTOTUNED_SDK_INLINE
#include "plugins/sdk/plugin.hpp"
#include "plugins/sdk/situation.hpp"
