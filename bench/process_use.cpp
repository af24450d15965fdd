// SPDX-License-Identifier: Apache-2.0
#include "bench/process_use.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/process/process.hpp"
#include "bench/recipe_job.hpp"

namespace autotuned::bench {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(20);

std::filesystem::path folder_of(pid_t process) {
  return std::filesystem::path("/proc") / std::to_string(process);
}

// Ticks of a process: its own, and those of ended children.
std::int64_t ticks_of(pid_t process) {
  std::ifstream file(folder_of(process) / "stat");
  std::string text;
  std::getline(file, text);
  // The name, in parentheses, may hold anything; the state is the first word behind it.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream words(text.substr(name_end + 1));
  std::string skipped;
  constexpr int kWordsBeforeTimes = 11;
  for (int i = 0; i < kWordsBeforeTimes; ++i)
    words >> skipped;
  std::int64_t sum = 0;
  for (int i = 0; i < 4; ++i) {  // user, system, and both of children
    std::int64_t ticks = 0;
    words >> ticks;
    sum += ticks;
  }
  return sum;
}

std::int64_t memory_of(pid_t process) {
  std::ifstream file(folder_of(process) / "smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == "Pss:") return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

std::chrono::nanoseconds own_cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) -> std::chrono::nanoseconds {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

std::vector<pid_t> process_tree(pid_t root) {
  std::vector<pid_t> tree{root};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    std::error_code error;  // it has ended
    std::filesystem::directory_iterator task(folder_of(tree[i]) / "task", error);
    while (!error && task != std::filesystem::directory_iterator()) {
      std::ifstream children(task->path() / "children");
      for (pid_t child = 0; children >> child;)
        tree.push_back(child);
      task.increment(error);
    }
  }
  return tree;
}

std::chrono::nanoseconds cpu_time_of_tree(pid_t root) {
  std::int64_t ticks = 0;
  for (const pid_t process : process_tree(root))
    ticks += ticks_of(process);
  return std::chrono::nanoseconds(std::chrono::seconds(1)) * ticks / sysconf(_SC_CLK_TCK);
}

std::int64_t memory_of_tree(pid_t root) {
  std::int64_t bytes = 0;
  for (const pid_t process : process_tree(root))
    bytes += memory_of(process);
  return bytes;
}

PeakMemory::PeakMemory(pid_t root)
    : watcher_([this, root](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          most_bytes_ = std::max(most_bytes_, memory_of_tree(root));
          std::this_thread::sleep_for(kBetweenLooks);
        }
      }) {}

std::int64_t PeakMemory::stop() {
  watcher_.request_stop();
  watcher_.join();
  return most_bytes_;
}

std::int64_t memory_of_program(const std::vector<std::string>& arguments) {
  ProcessSpec spec;
  spec.program = std::filesystem::read_symlink("/proc/self/exe");
  spec.arguments = arguments;
  spec.environment = environment_of({"HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR"});
  Process process = value_of(Process::start(spec));
  PeakMemory peak(process.pid());
  const auto exit = process.wait(std::chrono::nanoseconds(-1));
  if (!exit || exit->code != 0 || exit->signal != 0) {
    fmt::print(stderr, "error: {} alone: {}\n", spec.program.string(),
               exit ? exit->message() : "did not end");
    std::exit(1);
  }
  return peak.stop();
}

}  // namespace autotuned::bench
