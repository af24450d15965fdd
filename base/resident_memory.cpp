// SPDX-License-Identifier: Apache-2.0
#include "base/resident_memory.hpp"

#include <unistd.h>

#include <charconv>
#include <string>

#include "base/file.hpp"

namespace autotuned {

std::int64_t resident_bytes(pid_t process) {
  const auto text = read_file("/proc/" + std::to_string(process) + "/statm", 4096);
  if (!text) return 0;
  const std::size_t space = text->find(' ');
  std::int64_t pages = 0;
  if (space != std::string::npos) {
    std::from_chars(text->data() + space + 1, text->data() + text->size(), pages);
  }
  return pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace autotuned
