// SPDX-License-Identifier: Apache-2.0
// Policy plugins as YAML files: conditions, changes to try, and reasons (sdk/README.md).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "plugins/host/loader.hpp"
#include "recipes/yaml.hpp"

namespace autotuned::plugins {

struct YamlPlugin {
  std::string version;
  std::string summary;
  std::shared_ptr<Policy> policy;
  std::vector<std::string> needs;  // of the machine (needs.hpp)
};

// `file` names the plugin (NAME.yaml) and appears in the diagnostics. Returns all mistakes, not only the first.
[[nodiscard]] tl::expected<YamlPlugin, std::vector<recipes::Diagnostic>> parse_yaml_plugin(
    std::string_view text, const std::filesystem::path& file);

// ErrorKind::invalid holds every mistake as file:line:column, separated by "; ".
[[nodiscard]] Result<YamlPlugin> read_yaml_plugin(const std::filesystem::path& file);

}  // namespace autotuned::plugins
