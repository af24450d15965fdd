// SPDX-License-Identifier: Apache-2.0
#include "bench/plugins/places.hpp"

namespace autotuned::bench {

std::filesystem::path source_folder() {
  return AUTOTUNED_SOURCE_DIR;
}

std::filesystem::path build_folder() {
  return AUTOTUNED_BUILD_DIR;
}

}  // namespace autotuned::bench
