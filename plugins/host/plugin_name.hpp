// SPDX-License-Identifier: Apache-2.0
// Which names a plugin may have.
#pragma once

#include <string_view>

namespace autotuned::plugins {

// Whether the name matches [a-z][a-z0-9_]* and has at most 64 characters.
[[nodiscard]] bool is_plugin_name(std::string_view name);

// The rule of is_plugin_name() as a clause, for people.
inline constexpr const char* kPluginNameRule =
    "a name has at most 64 lower-case letters, digits and _, a letter first";

}  // namespace autotuned::plugins
