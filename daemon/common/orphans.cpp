// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/orphans.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/file.hpp"
#include "base/folder_names.hpp"
#include "base/process/kill_processes.hpp"
#include "base/process/process_group.hpp"

namespace autotuned::daemon {

namespace {

constexpr int kLooks = 3;

bool carries(pid_t process, const std::set<std::string>& tokens) {
  const std::string folder = "/proc/" + std::to_string(process);
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || status.st_uid != ::getuid()) return false;
  const auto environment = read_file(folder + "/environ", kMaxEnvironmentBytes);
  if (!environment) return false;
  const std::string mark = std::string(kMarkVariable) + "=";
  std::string_view rest = *environment;
  while (!rest.empty()) {
    const std::string_view variable = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), variable.size() + 1));
    if (variable.starts_with(mark)) {
      return tokens.contains(std::string(variable.substr(mark.size())));
    }
  }
  return false;
}

}  // namespace

std::vector<pid_t> processes_of(const std::set<std::string>& tokens) {
  std::vector<pid_t> found;
  FolderNames names("/proc");
  while (const auto name = names.next()) {
    const auto process = process_number(*name);
    if (process && *process != ::getpid() && carries(*process, tokens)) found.push_back(*process);
  }
  return found;
}

std::size_t end_processes_of(const std::set<std::string>& tokens, std::chrono::nanoseconds limit) {
  if (tokens.empty()) return 0;
  const auto give_up = std::chrono::steady_clock::now() + limit;
  std::size_t count = 0;
  // A process that was just being started is found in the next look.
  for (int look = 0; look < kLooks; ++look) {
    const std::vector<pid_t> ended = kill_processes(
        processes_of(tokens), [&tokens](pid_t process) { return carries(process, tokens); },
        give_up);
    if (ended.empty()) break;
    if (look == 0) count = ended.size();
  }
  return count;
}

}  // namespace autotuned::daemon
