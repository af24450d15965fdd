// SPDX-License-Identifier: Apache-2.0
// What plugins may be called.
#pragma once

#include <string_view>

namespace autotuned::plugins {

// [a-z][a-z0-9_]*, at most 64 characters.
[[nodiscard]] bool is_plugin_name(std::string_view name);

// The same as a clause, for people.
inline constexpr const char* kPluginNameRule =
    "a name has at most 64 lower-case letters, digits and _, a letter first";

}  // namespace autotuned::plugins
