// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/processes.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace autotuned::faults {

namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream input(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

bool has_role(const fs::path& process, const Role& role) {
  std::error_code gone;
  // Empty for a zombie.
  if (fs::read_symlink(process / "exe", gone).filename() != role.executable) return false;
  if (role.argument.empty()) return true;
  const std::string arguments = content_of(process / "cmdline");
  const std::size_t first = arguments.find('\0');
  return first != std::string::npos && arguments.c_str() + first + 1 == role.argument;
}

std::string variable(const std::string& environment, const std::string& name) {
  const std::size_t at = environment.find(name + "=");
  return at == std::string::npos ? "" : environment.c_str() + at + name.size() + 1;
}

bool is_alive(const Found& process, const Role& role) {
  return has_role(fs::path("/proc") / std::to_string(process.pid), role);
}

}  // namespace

std::vector<Found> find_processes(const fs::path& folder, const Role& role) {
  std::vector<Found> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!has_role(entry.path(), role)) continue;
    const std::string environment = content_of(entry.path() / "environ");
    if (environment.find(folder.string()) == std::string::npos) continue;
    found.push_back({std::stoi(name), variable(environment, "AUTOTUNED_PARENT_PID")});
  }
  return found;
}

std::set<pid_t> at_work(const fs::path& folder, const Role& session, const Role& trainer) {
  std::set<pid_t> found;
  for (const Found& one : find_processes(folder, trainer)) {
    found.insert(one.pid);
    found.insert(std::atoi(one.parent.c_str()));
  }
  for (const Found& one : find_processes(folder, session)) {
    if (found.contains(one.pid)) found.insert(std::atoi(one.parent.c_str()));
  }
  return found;
}

bool kill_one(const fs::path& folder, const Role& role, std::mt19937_64& random,
              const std::set<pid_t>& preferred) {
  auto found = find_processes(folder, role);
  const auto is_preferred = [&](const Found& one) { return preferred.contains(one.pid); };
  if (std::ranges::any_of(found, is_preferred)) {
    std::erase_if(found, [&](const Found& one) { return !is_preferred(one); });
  }
  return !found.empty() && ::kill(found[random() % found.size()].pid, SIGKILL) == 0;
}

std::string double_booking(const fs::path& folder, const Role& trainer) {
  const auto found = find_processes(folder, trainer);
  for (const Found& a : found) {
    for (const Found& b : found) {
      if (a.pid >= b.pid || a.parent == b.parent) continue;
      // Both were seen, one after the other. They overlap if the first one is still there.
      if (is_alive(a, trainer) && is_alive(b, trainer) && is_alive(a, trainer)) {
        return std::to_string(a.pid) + " of " + a.parent + " and " + std::to_string(b.pid) +
               " of " + b.parent;
      }
    }
  }
  return {};
}

}  // namespace autotuned::faults
