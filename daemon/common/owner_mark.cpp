// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/owner_mark.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

#include "base/file.hpp"
#include "base/folder_names.hpp"
#include "daemon/common/orphans.hpp"

namespace autotuned::daemon {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "process-";
constexpr std::string_view kUnknown = "-unknown";

struct ProcessState {
  char state = '?';
  std::string start;  // clock ticks since the machine started
};

Result<ProcessState> state_of(const std::string& process) {
  auto text = read_file("/proc/" + process + "/stat", 4096);
  if (!text) return tl::unexpected(text.error());
  // The name, in brackets, may hold anything.
  std::istringstream fields(text->substr(std::min(text->size(), text->rfind(')') + 1)));
  ProcessState found;
  fields >> found.state;
  for (int field = 4; field <= 22; ++field)
    fields >> found.start;
  if (!fields) return fail(ErrorKind::corrupt, "it cannot be read", "/proc/" + process + "/stat");
  return found;
}

std::string mark_of(const std::string& process) {
  const auto environment = read_file("/proc/" + process + "/environ", kMaxEnvironmentBytes);
  if (!environment) return {};
  const std::string name = std::string(kMarkVariable) + "=";
  std::string_view rest = *environment;
  while (!rest.empty()) {
    const std::string_view variable = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), variable.size() + 1));
    if (variable.starts_with(name)) return std::string(variable.substr(name.size()));
  }
  return {};
}

// Empty when it is not for us to know.
std::string namespace_of(const std::string& process) {
  std::error_code failed;
  return fs::read_symlink("/proc/" + process + "/ns/pid", failed).string();
}

}  // namespace

std::string own_mark() {
  const std::string process = std::to_string(::getpid());
  const auto state = state_of(process);
  // Without the start time nobody could tell that the process has ended; then nothing is ended by mistake.
  return std::string(kPrefix) + process + (state ? "-" + state->start : std::string(kUnknown));
}

std::size_t end_own(std::chrono::nanoseconds limit) {
  const std::string mark = own_mark();
  // Without its start it might be the mark of another process that had our number.
  return mark.ends_with(kUnknown) ? 0 : end_processes_of({mark}, limit);
}

bool is_left_behind(const std::string& mark) {
  if (!mark.starts_with(kPrefix)) return false;
  const std::string rest = mark.substr(kPrefix.size());
  const std::size_t dash = rest.find('-');
  const std::string process = rest.substr(0, dash);
  const std::string start = dash == std::string::npos ? "" : rest.substr(dash + 1);
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!is_number(process) || !is_number(start)) return false;
  const auto state = state_of(process);
  if (!state) return state.error().kind == ErrorKind::not_found;
  return state->start != start || state->state == 'Z' || state->state == 'X';
}

std::size_t end_left_behind(std::chrono::nanoseconds limit) {
  const std::string ours = namespace_of("self");
  if (ours.empty()) return 0;
  std::set<std::string> marks;
  FolderNames names("/proc");
  while (const auto name = names.next()) {
    if (name->find_first_not_of("0123456789") != std::string_view::npos) continue;
    const std::string process(*name);
    struct stat status {};
    if (::stat(("/proc/" + process).c_str(), &status) != 0 || status.st_uid != ::getuid()) continue;
    std::string mark = mark_of(process);
    if (!mark.empty() && is_left_behind(mark) && namespace_of(process) == ours) {
      marks.insert(std::move(mark));
    }
  }
  return end_processes_of(marks, limit);
}

}  // namespace autotuned::daemon
