// SPDX-License-Identifier: Apache-2.0
#include "tests/places.hpp"

#include <system_error>

namespace autotuned::tests {

std::filesystem::path source_folder() {
  return AUTOTUNED_SOURCE_DIR;
}

// A test that was packed (scripts/package) lies beside the programs as in the build, wherever that was.
std::filesystem::path build_folder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path build = self.parent_path().parent_path();
  const bool is_beside = !error && self.parent_path().filename() == "tests" &&
                         std::filesystem::exists(build / "bin/autotuned", error);
  return is_beside ? build : std::filesystem::path(AUTOTUNED_BUILD_DIR);
}

}  // namespace autotuned::tests
