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

// Makes the folder and returns the files in it, sorted. Errors: `invalid` for what is no plugin name,
// for a name that CMake keeps for itself (a policy's is that of a build target), and when the folder is
// there already; `io` for templates that are missing; else what the system says. Whatever it made until
// then is removed again.
[[nodiscard]] Result<std::vector<std::filesystem::path>> write_skeleton(const SkeletonSpec& spec);

}  // namespace autotuned::plugins
