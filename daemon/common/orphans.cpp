// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/orphans.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/folder_names.hpp"

// glibc 2.36 declares these without saying that they are C; later versions do.
extern "C" {
#include <sys/pidfd.h>
}

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
    pid_t process = 0;
    const char* const end = name->data() + name->size();
    if (std::from_chars(name->data(), end, process).ptr != end || process == ::getpid()) continue;
    if (carries(process, tokens)) found.push_back(process);
  }
  return found;
}

std::size_t end_processes_of(const std::set<std::string>& tokens, std::chrono::nanoseconds limit) {
  if (tokens.empty()) return 0;
  const auto give_up = std::chrono::steady_clock::now() + limit;
  std::size_t count = 0;
  // A process that was just being started is found in the next look.
  for (int look = 0; look < kLooks; ++look) {
    std::vector<Descriptor> ended;
    for (const pid_t process : processes_of(tokens)) {
      Descriptor watched(::pidfd_open(process, 0));
      // Only now the number cannot become another process's: look at it again.
      if (!watched.is_open() || !carries(process, tokens)) continue;
      if (::pidfd_send_signal(watched.get(), SIGKILL, nullptr, 0) == 0) {
        ended.push_back(std::move(watched));
      }
    }
    if (ended.empty()) break;
    if (look == 0) count = ended.size();
    for (const Descriptor& process : ended) {
      const auto left = give_up - std::chrono::steady_clock::now();
      static_cast<void>(
          wait_readable(process.get(), std::max(left, std::chrono::steady_clock::duration(0))));
    }
  }
  return count;
}

}  // namespace autotuned::daemon
