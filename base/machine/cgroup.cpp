// SPDX-License-Identifier: Apache-2.0
#include "base/machine/cgroup.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/machine/system_text.hpp"

namespace autotuned {
namespace {

struct Hierarchy {
  bool is_unified = false;
  std::string controllers;  // version 1: "cpu,cpuacct"
  std::string group;        // our group, seen from the hierarchy's root
};

struct Mount {
  bool is_unified = false;
  std::string options;  // version 1: holds the controllers' names
  std::string root;     // the group that lies at the mount point
  std::string point;
};

bool has_item(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == item) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// The kernel writes blanks in paths as "\040".
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<Hierarchy> read_hierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::istringstream lines(system_text(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    Hierarchy hierarchy;
    hierarchy.controllers = line.substr(first + 1, second - first - 1);
    hierarchy.group = line.substr(second + 1);
    hierarchy.is_unified = hierarchy.controllers.empty();
    found.push_back(std::move(hierarchy));
  }
  return found;
}

// A line: id parent major:minor root point options [tags…] - type source super-options
std::vector<Mount> read_mounts(const std::string& root) {
  std::vector<Mount> found;
  std::istringstream lines(system_text(root + "/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> word;
    for (std::string next; words >> next;)
      word.push_back(std::move(next));
    const auto dash = std::ranges::find(word, "-");
    if (dash - word.begin() < 6 || word.end() - dash < 4) continue;
    if (dash[1] != "cgroup" && dash[1] != "cgroup2") continue;
    found.push_back(
        Mount{dash[1] == "cgroup2", dash[3], without_escapes(word[3]), without_escapes(word[4])});
  }
  return found;
}

// Returns the folder of our group and of all groups above it, up to the mount point.
std::vector<std::string> folders(const Mount& mount, const std::string& group) {
  // Inside a container the mount shows only the group at its root and the groups below.
  std::string below = group;
  if (mount.root != "/") {
    const bool is_inside = group.starts_with(mount.root) &&
                           (group.size() == mount.root.size() || group[mount.root.size()] == '/');
    below = is_inside ? group.substr(mount.root.size()) : "";
  }
  std::vector<std::string> found;
  while (!below.empty() && below != "/") {
    found.push_back(mount.point + below);
    below.resize(below.rfind('/') == std::string::npos ? 0 : below.rfind('/'));
  }
  found.push_back(mount.point);
  return found;
}

// Reads "max", a number, or nothing from a missing file.
std::optional<std::int64_t> read_number(std::istream& text) {
  std::int64_t number = 0;
  if (text >> number) return number;
  return std::nullopt;
}

std::optional<std::int64_t> read_number_of(const std::string& file) {
  std::istringstream text(system_text(file));
  return read_number(text);
}

std::vector<Mount>::const_iterator mount_of(const std::vector<Mount>& mounts,
                                            const Hierarchy& hierarchy) {
  const std::string first = hierarchy.controllers.substr(0, hierarchy.controllers.find(','));
  return std::ranges::find_if(mounts, [&](const Mount& candidate) {
    return candidate.is_unified == hierarchy.is_unified &&
           (hierarchy.is_unified || has_item(candidate.options, first));
  });
}

void limit_cpus(CgroupLimits& limits, std::optional<std::int64_t> quota,
                std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
  limits.cpus = std::min(cpus, limits.cpus.value_or(cpus));
}

void limit_memory(CgroupLimits& limits, std::optional<std::int64_t> bytes) {
  if (!bytes || *bytes <= 0) return;
  limits.memory_bytes = std::min(*bytes, limits.memory_bytes.value_or(*bytes));
}

// A group that we are in, or one above it.
struct Group {
  std::string folder;
  bool is_unified = false;
  bool has_cpu = false;
  bool has_memory = false;
};

std::vector<Group> read_groups(const std::string& root) {
  std::vector<Group> groups;
  const std::vector<Mount> mounts = read_mounts(root);
  for (const Hierarchy& hierarchy : read_hierarchies(root)) {
    const bool has_cpu = hierarchy.is_unified || has_item(hierarchy.controllers, "cpu");
    const bool has_memory = hierarchy.is_unified || has_item(hierarchy.controllers, "memory");
    if (!has_cpu && !has_memory) continue;
    const auto mount = mount_of(mounts, hierarchy);
    if (mount == mounts.end()) continue;
    for (const std::string& below : folders(*mount, hierarchy.group))
      groups.push_back({root + below, hierarchy.is_unified, has_cpu, has_memory});
  }
  return groups;
}

// Returns the number that follows "NAME " at the start of a line.
std::optional<std::int64_t> read_field(const std::string& file, std::string_view name) {
  std::istringstream words(system_text(file));
  std::string word;
  for (std::int64_t number = 0; words >> word >> number;) {
    if (word == name) return number;
  }
  return std::nullopt;
}

constexpr std::string_view kOomKills = "oom_kill";

}  // namespace

OomKills::OomKills(const std::string& root) : file_(root + "/proc/vmstat") {
  const std::vector<Mount> mounts = read_mounts(root);
  for (const Hierarchy& hierarchy : read_hierarchies(root)) {
    if (!hierarchy.is_unified && !has_item(hierarchy.controllers, "memory")) continue;
    const auto mount = mount_of(mounts, hierarchy);
    if (mount == mounts.end()) continue;
    const std::string file = root + folders(*mount, hierarchy.group).front() +
                             (hierarchy.is_unified ? "/memory.events" : "/memory.oom_control");
    if (read_field(file, kOomKills)) file_ = file;
  }
}

std::int64_t OomKills::count() const {
  return read_field(file_, kOomKills).value_or(0);
}

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  for (const Group& group : read_groups(root)) {
    if (group.is_unified) {
      std::istringstream cpu_max(system_text(group.folder + "/cpu.max"));
      const std::optional<std::int64_t> quota = read_number(cpu_max);
      limit_cpus(limits, quota, quota ? read_number(cpu_max) : std::nullopt);
      limit_memory(limits, read_number_of(group.folder + "/memory.max"));
      continue;
    }
    if (group.has_cpu) {
      limit_cpus(limits, read_number_of(group.folder + "/cpu.cfs_quota_us"),
                 read_number_of(group.folder + "/cpu.cfs_period_us"));
    }
    if (group.has_memory) {
      limit_memory(limits, read_number_of(group.folder + "/memory.limit_in_bytes"));
    }
  }
  return limits;
}

std::optional<std::int64_t> read_cgroup_memory_left(const std::string& root) {
  std::optional<std::int64_t> left;
  for (const Group& group : read_groups(root)) {
    if (!group.has_memory) continue;
    const auto limit = read_number_of(
        group.folder + (group.is_unified ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto held = read_number_of(
        group.folder + (group.is_unified ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!limit || !held) continue;
    const auto droppable = read_field(group.folder + "/memory.stat",
                                      group.is_unified ? "inactive_file" : "total_inactive_file");
    const std::int64_t kept = std::max<std::int64_t>(*held - droppable.value_or(0), 0);
    const std::int64_t here = std::max<std::int64_t>(*limit - kept, 0);
    left = std::min(here, left.value_or(here));
  }
  return left;
}

std::optional<std::chrono::nanoseconds> read_cgroup_stops(const std::string& root) {
  std::optional<std::chrono::nanoseconds> stopped;
  for (const Group& group : read_groups(root)) {
    if (!group.has_cpu) continue;
    const std::string file = group.folder + "/cpu.stat";
    const auto count =
        group.is_unified ? read_field(file, "throttled_usec") : read_field(file, "throttled_time");
    if (!count) continue;
    const auto time = group.is_unified ? std::chrono::nanoseconds(std::chrono::microseconds(*count))
                                       : std::chrono::nanoseconds(*count);
    stopped = stopped.value_or(std::chrono::nanoseconds{0}) + time;
  }
  return stopped;
}

}  // namespace autotuned
