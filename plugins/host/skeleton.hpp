// SPDX-License-Identifier: Apache-2.0
// A plugin to start from: the files of sdk/templates with a name filled in.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::plugins {

struct SkeletonSpec {
  std::filesystem::path templates;  // share/autotuned/templates of the installation
  std::string kind;                 // "policy" or "yaml": a folder of `templates`
  std::string name;                 // of the plugin
  std::filesystem::path parent;     // the folder parent/name is made
};

// Makes the folder and returns the files in it, sorted. Errors: `invalid` for a text that is no plugin name, for a name
// that CMake reserves (a policy's name is that of a build target), and if the folder exists; `io` if templates are
// missing; else the error of the system. After an error nothing that it made is left.
[[nodiscard]] Result<std::vector<std::filesystem::path>> write_skeleton(const SkeletonSpec& spec);

}  // namespace autotuned::plugins
