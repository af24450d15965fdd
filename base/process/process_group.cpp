// SPDX-License-Identifier: Apache-2.0
#include "base/process/process_group.hpp"

#include <unistd.h>

#include <charconv>
#include <system_error>

#include "base/folder_names.hpp"

namespace autotuned {

std::optional<pid_t> process_number(std::string_view name) {
  pid_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

std::vector<pid_t> processes_of_group(pid_t group) {
  std::vector<pid_t> found;
  FolderNames names("/proc");
  while (const auto name = names.next()) {
    const auto process = process_number(*name);
    if (process && ::getpgid(*process) == group) found.push_back(*process);
  }
  return found;
}

}  // namespace autotuned
