// SPDX-License-Identifier: Apache-2.0
#include "base/process/resident_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "base/process/process_group.hpp"

namespace autotuned {
namespace {

constexpr std::chrono::seconds kMembersStay{1};

std::string proc_folder(pid_t process) {
  return "/proc/" + std::to_string(process);
}

// Returns the proportional share: each page divided by the number of processes that map it. Returns the resident bytes if this
// process may not read that.
std::int64_t proportional_bytes(pid_t process) {
  const auto text = read_file(proc_folder(process) + "/smaps_rollup", 16384);
  if (!text) return resident_bytes(process);
  constexpr std::string_view kName = "\nPss:";
  const std::size_t name = text->find(kName);
  if (name == std::string::npos) return resident_bytes(process);
  const std::size_t number = text->find_first_not_of(' ', name + kName.size());
  if (number == std::string::npos) return resident_bytes(process);
  std::int64_t kilobytes = 0;
  std::from_chars(text->data() + number, text->data() + text->size(), kilobytes);
  return kilobytes * 1024;
}

}  // namespace

std::int64_t resident_bytes(pid_t process) {
  const auto text = read_file(proc_folder(process) + "/statm", 4096);
  if (!text) return 0;
  const std::size_t space = text->find(' ');
  std::int64_t pages = 0;
  if (space != std::string::npos) {
    std::from_chars(text->data() + space + 1, text->data() + text->size(), pages);
  }
  return pages * ::sysconf(_SC_PAGESIZE);
}

void ResidentGroup::find_members() {
  members_ = processes_of_group(leader_);
  // It may not have made its group yet.
  if (std::ranges::find(members_, leader_) == members_.end()) members_.push_back(leader_);
  found_ = std::chrono::steady_clock::now();
}

std::int64_t ResidentGroup::held_bytes(std::int64_t enough_bytes) {
  if (std::chrono::steady_clock::now() - found_ >= kMembersStay || members_.empty()) find_members();
  std::int64_t bytes = 0;
  for (const pid_t process : members_)
    bytes += resident_bytes(process);
  // The memory of a single process is known exactly.
  if (bytes <= enough_bytes || members_.size() == 1) return bytes;
  bytes = 0;
  for (const pid_t process : members_)
    bytes += proportional_bytes(process);
  return bytes;
}

}  // namespace autotuned
