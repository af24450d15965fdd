// SPDX-License-Identifier: Apache-2.0
#include "base/process/thread_settings.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/folder_names.hpp"
#include "base/process/process_group.hpp"
#include "base/text.hpp"

namespace autotuned {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{64} << 10U;
constexpr int kIoPriorityOfThread = 1;  // IOPRIO_WHO_PROCESS: the C library has no header for it

std::string process_folder(pid_t process) {
  return "/proc/" + std::to_string(process);
}

std::optional<std::pair<ThreadId, ThreadSettings>> read_thread(pid_t process, pid_t thread) {
  const std::string folder = process_folder(process) + "/task/" + std::to_string(thread);
  // Before the status, which tells if the thread was ending: it leaves its groups then. Not every kernel has both.
  std::string groups = read_file(folder + "/cgroup", kMaxTextBytes).value_or("");
  if (thread == process) {
    groups += read_file(process_folder(process) + "/autogroup", kMaxTextBytes).value_or("");
  }
  const auto status = read_file(folder + "/status", kMaxTextBytes);
  const auto stat = read_file(folder + "/stat", kMaxTextBytes);
  if (!stat || !status) return std::nullopt;
  auto read = parse_thread(*stat, *status);
  if (!read || read->is_ending) return std::nullopt;
  ThreadSettings settings = std::move(read->settings);
  settings.io_priority =
      static_cast<int>(::syscall(SYS_ioprio_get, kIoPriorityOfThread, static_cast<int>(thread)));
  settings.groups = std::move(groups);
  return std::pair(ThreadId{process, thread, read->start_ticks}, std::move(settings));
}

std::string policy_name(int policy) {
  switch (policy) {
    case SCHED_OTHER:
      return "SCHED_OTHER";
    case SCHED_FIFO:
      return "SCHED_FIFO";
    case SCHED_RR:
      return "SCHED_RR";
    case SCHED_BATCH:
      return "SCHED_BATCH";
    case SCHED_IDLE:
      return "SCHED_IDLE";
    default:
      return "policy " + std::to_string(policy);
  }
}

std::vector<std::string> differences(const ThreadSettings& before, const ThreadSettings& now,
                                     CpusCount cpus) {
  std::vector<std::string> found;
  const auto add = [&found](const std::string& what, const std::string& was,
                            const std::string& is) {
    if (was != is) found.push_back(what + " (" + was + " to " + is + ")");
  };
  add("scheduling policy", policy_name(before.policy), policy_name(now.policy));
  add("niceness", std::to_string(before.niceness), std::to_string(now.niceness));
  add("real-time priority", std::to_string(before.real_time_priority),
      std::to_string(now.real_time_priority));
  add("I/O priority", std::to_string(before.io_priority), std::to_string(now.io_priority));
  if (cpus == CpusCount::yes) add("allowed CPUs", before.cpus, now.cpus);
  // A line for each hierarchy: too much for a message.
  if (before.groups != now.groups) found.emplace_back("cgroup or autogroup");
  return found;
}

// Orders by urgency: real time before others, and both before SCHED_IDLE.
std::tuple<int, int, int> urgency(const ThreadSettings& thread) {
  const bool is_usual = thread.policy == SCHED_OTHER || thread.policy == SCHED_BATCH;
  const bool is_idle = thread.policy == SCHED_IDLE;
  const int rank = is_idle ? 0 : is_usual ? 1 : 2;
  return {rank, thread.real_time_priority, -thread.niceness};
}

const ThreadSettings& most_urgent(const GroupSettings& group) {
  return std::ranges::max_element(group, {},
                                  [](const auto& entry) { return urgency(entry.second); })
      ->second;
}

std::string urgency_text(const ThreadSettings& thread) {
  const bool is_real_time = std::get<0>(urgency(thread)) == 2;
  return policy_name(thread.policy) +
         (is_real_time ? " with priority " + std::to_string(thread.real_time_priority)
                       : " with niceness " + std::to_string(thread.niceness));
}

}  // namespace

Result<ThreadText> parse_thread(std::string_view stat, std::string_view status) {
  // The name, in brackets, may contain any characters. Field 3, the state, follows it.
  constexpr std::size_t kFirstField = 3;
  constexpr std::size_t kFlags = 9;
  constexpr std::int64_t kExiting = 4;  // PF_EXITING
  constexpr std::size_t kNiceness = 19;
  constexpr std::size_t kStartTime = 22;
  constexpr std::size_t kRealTimePriority = 40;
  constexpr std::size_t kPolicy = 41;
  const std::size_t name_end = stat.rfind(')');
  std::string_view rest = name_end == std::string_view::npos ? "" : stat.substr(name_end + 1);
  std::array<std::int64_t, kPolicy + 1> fields{};
  char state = 0;
  for (std::size_t field = kFirstField; field <= kPolicy; ++field) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.empty()) return fail(ErrorKind::invalid, "the status of a thread has too few fields");
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size());
    if (field == kFirstField) state = word.front();
    // Values that do not fit, such as addresses, are not asked for.
    std::from_chars(word.data(), word.data() + word.size(), fields[field]);
  }
  constexpr std::string_view kCpus = "\nCpus_allowed_list:";
  const std::size_t cpus = status.find(kCpus);
  if (cpus == std::string_view::npos) {
    return fail(ErrorKind::invalid, "the status of a thread does not name its CPUs");
  }
  std::string_view line = status.substr(cpus + kCpus.size());
  line = trimmed(line.substr(0, line.find('\n')));
  return ThreadText{.settings = {.policy = static_cast<int>(fields[kPolicy]),
                                 .niceness = static_cast<int>(fields[kNiceness]),
                                 .real_time_priority = static_cast<int>(fields[kRealTimePriority]),
                                 .io_priority = 0,
                                 .cpus = std::string(line),
                                 .groups = ""},
                    .start_ticks = fields[kStartTime],
                    .is_ending = state == 'Z' || state == 'X' || (fields[kFlags] & kExiting) != 0};
}

GroupSettings settings_of_group(pid_t group) {
  GroupSettings found;
  for (const pid_t process : processes_of_group(group)) {
    FolderNames threads((process_folder(process) + "/task").c_str());
    while (const auto thread_name = threads.next()) {
      const auto thread = process_number(*thread_name);
      if (!thread) continue;
      if (auto read = read_thread(process, *thread)) found.insert(*std::move(read));
    }
  }
  return found;
}

GroupSettings settings_now(const GroupSettings& before) {
  GroupSettings found;
  for (const auto& [id, settings] : before) {
    auto read = read_thread(id.process, id.thread);
    if (read && read->first == id) found.insert(*std::move(read));
  }
  return found;
}

std::string changed_settings(const GroupSettings& before, const GroupSettings& now,
                             CpusCount cpus) {
  std::string text;
  int threads = 0;
  for (const auto& [id, settings] : before) {
    const auto found = now.find(id);
    if (found == now.end()) continue;
    const auto changes = differences(settings, found->second, cpus);
    if (changes.empty()) continue;
    if (++threads > 1) continue;
    for (const std::string& change : changes)
      text += change + ", ";
  }
  if (threads == 0) return "";
  return text + "in " + format_counted(threads, "thread");
}

std::string unequal_urgency(const GroupSettings& one, const GroupSettings& other) {
  if (one.empty() || other.empty()) return "";
  const ThreadSettings& first = most_urgent(one);
  const ThreadSettings& second = most_urgent(other);
  if (urgency(first) == urgency(second)) return "";
  return urgency_text(first) + " and " + urgency_text(second);
}

}  // namespace autotuned
