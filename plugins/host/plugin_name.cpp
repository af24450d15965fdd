// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/plugin_name.hpp"

#include <algorithm>

namespace autotuned::plugins {

bool is_plugin_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.front() >= 'a' && name.front() <= 'z' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

}  // namespace autotuned::plugins
