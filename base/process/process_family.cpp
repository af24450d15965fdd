// SPDX-License-Identifier: Apache-2.0
#include "base/process/process_family.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <thread>

#include "base/file.hpp"
#include "base/folder_names.hpp"
#include "base/process/kill_processes.hpp"
#include "base/process/process_group.hpp"

namespace autotuned {
namespace {

constexpr std::size_t kMaxStatBytes = 4096;
constexpr std::size_t kMaxEnvironmentBytes = std::size_t{4} << 20U;
constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

constexpr std::chrono::nanoseconds kPause = std::chrono::milliseconds(10);
constexpr int kLooks = 3;  // at what is left: a process may be starting another one

std::string folder_of_process(pid_t process) {
  return "/proc/" + std::to_string(process);
}

std::optional<ProcessStatus> status_of(pid_t process) {
  const auto text = read_file(folder_of_process(process) + "/stat", kMaxStatBytes);
  if (!text) return std::nullopt;
  // The name, in brackets, may contain any characters. Field 3, the state, follows it.
  const std::size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  constexpr int kFirstField = 3;
  constexpr int kStartTime = 22;
  std::array<std::int64_t, kStartTime + 1> fields{};
  const std::size_t state_at = text->find_first_not_of(' ', name_end + 1);
  const char state = state_at == std::string::npos ? 'X' : (*text)[state_at];
  const char* at = text->data() + name_end + 1;
  const char* const end = text->data() + text->size();
  for (int field = kFirstField; field <= kStartTime; ++field) {
    while (at != end && *at == ' ')
      ++at;
    if (at == end) return std::nullopt;
    std::from_chars(at, end, fields[static_cast<std::size_t>(field)]);
    while (at != end && *at != ' ')
      ++at;
  }
  return ProcessStatus{.number = process,
                       .parent = static_cast<pid_t>(fields[4]),
                       .group = static_cast<pid_t>(fields[5]),
                       .reaped_ticks = fields[16] + fields[17],
                       .start_ticks = fields[kStartTime],
                       .has_ended = state == 'Z' || state == 'X'};
}

// Returns the processes of this user.
std::vector<ProcessStatus> all_processes() {
  std::vector<ProcessStatus> found;
  FolderNames names("/proc");
  while (const auto name = names.next()) {
    const auto process = process_number(*name);
    struct stat status {};
    if (!process || ::stat(folder_of_process(*process).c_str(), &status) != 0) continue;
    if (status.st_uid != ::getuid()) continue;
    if (const auto read = status_of(*process)) found.push_back(*read);
  }
  return found;
}

}  // namespace

std::optional<std::chrono::nanoseconds> cpu_time_of(pid_t process) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &used) != 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

bool ProcessFamily::is_marked(Process process) {
  if (mark_.empty()) return false;
  const auto known = is_marked_.find(process);
  if (known != is_marked_.end()) return known->second;
  const auto environment =
      read_file(folder_of_process(process.number) + "/environ", kMaxEnvironmentBytes);
  bool has_mark = false;
  std::string_view rest = environment ? std::string_view(*environment) : std::string_view();
  while (!rest.empty() && !has_mark) {
    const std::string_view variable = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), variable.size() + 1));
    has_mark = variable == mark_;
  }
  // A process between fork() and exec() still shows the environment of its parent. It belongs to the family then, too.
  is_marked_.emplace(process, has_mark);
  return has_mark;
}

std::set<pid_t> ProcessFamily::members_of(const std::vector<ProcessStatus>& all, bool has_leader) {
  std::set<pid_t> members;
  if (has_leader) members.insert(leader_);
  for (const ProcessStatus& one : all) {
    const Process process{one.number, one.start_ticks};
    if ((has_leader && one.group == leader_) || seen_.contains(process) || is_marked(process)) {
      members.insert(one.number);
    }
  }
  // Children may come before their parents in the list.
  for (bool has_grown = true; has_grown;) {
    has_grown = false;
    for (const ProcessStatus& one : all) {
      if (members.contains(one.parent)) has_grown |= members.insert(one.number).second;
    }
  }
  std::erase_if(is_marked_, [&all](const auto& known) {
    return std::ranges::none_of(all, [&known](const ProcessStatus& one) {
      return one.number == known.first.number && one.start_ticks == known.first.start_ticks;
    });
  });
  return members;
}

void ProcessFamily::look() {
  const std::vector<ProcessStatus> all = all_processes();
  const std::set<pid_t> members = members_of(all, /*has_leader=*/true);
  seen_.clear();
  for (const ProcessStatus& one : all) {
    if (one.number != leader_ && members.contains(one.number)) {
      seen_.insert(Process{one.number, one.start_ticks});
    }
  }
}

std::vector<ProcessFamily::Process> ProcessFamily::rest() {
  const std::vector<ProcessStatus> all = all_processes();
  const std::set<pid_t> members = members_of(all, /*has_leader=*/false);
  std::vector<Process> found;
  for (const ProcessStatus& one : all) {
    const bool is_ours = members.contains(one.number) && one.number != ::getpid();
    if (is_ours && one.group != leader_ && !one.has_ended) {
      found.push_back({one.number, one.start_ticks});
    }
  }
  return found;
}

std::vector<pid_t> ProcessFamily::end_rest(std::chrono::nanoseconds grace,
                                           std::chrono::nanoseconds limit) {
  using Clock = std::chrono::steady_clock;
  std::vector<Process> left = rest();
  for (const auto end = Clock::now() + grace; !left.empty() && Clock::now() < end; left = rest())
    std::this_thread::sleep_for(kPause);
  const auto give_up = Clock::now() + limit;
  std::set<pid_t> ended;
  for (int look = 0; look < kLooks && !left.empty(); ++look, left = rest()) {
    std::vector<pid_t> numbers;
    for (const Process& one : left)
      numbers.push_back(one.number);
    const auto is_same = [&left](pid_t number) {
      const auto status = status_of(number);
      return status && std::ranges::find(left, Process{number, status->start_ticks}) != left.end();
    };
    for (const pid_t number : kill_processes(numbers, is_same, give_up)) {
      ended.insert(number);
      // If it has made itself a child of ours, nobody else waits for it.
      static_cast<void>(::waitpid(number, nullptr, WNOHANG));
    }
  }
  return {ended.begin(), ended.end()};
}

std::chrono::nanoseconds ProcessFamily::cpu_time_since_last_look() {
  const std::vector<ProcessStatus> all = all_processes();
  const std::set<pid_t> members = members_of(all, /*has_leader=*/true);
  const std::int64_t tick_ns = kNanosecondsPerSecond / ::sysconf(_SC_CLK_TCK);
  std::map<Process, std::int64_t> now;
  std::int64_t used_ns = 0;
  for (const ProcessStatus& one : all) {
    if (!members.contains(one.number)) continue;
    const Process process{one.number, one.start_ticks};
    const std::int64_t cpu_ns =
        cpu_time_of(one.number).value_or(std::chrono::nanoseconds{0}).count() +
        one.reaped_ticks * tick_ns;
    now.emplace(process, cpu_ns);
    const auto before = cpu_ns_.find(process);
    used_ns += cpu_ns - (before != cpu_ns_.end() ? before->second : 0);
  }
  cpu_ns_ = std::move(now);
  if (!has_looked_) used_ns = 0;
  has_looked_ = true;
  return std::chrono::nanoseconds(std::max<std::int64_t>(used_ns, 0));
}

}  // namespace autotuned
