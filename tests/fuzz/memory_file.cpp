// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tests/fuzz/target.hpp"

namespace autotuned::fuzz {

std::filesystem::path file_with(std::string_view bytes) {
  static const int file = ::memfd_create("input", MFD_CLOEXEC);
  FUZZ_CHECK(file >= 0 && ::ftruncate(file, 0) == 0);
  const auto size = static_cast<ssize_t>(bytes.size());
  FUZZ_CHECK(::pwrite(file, bytes.data(), bytes.size(), 0) == size);
  return "/proc/self/fd/" + std::to_string(file);
}

}  // namespace autotuned::fuzz
