// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/launched.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kPrefix = "launched-";
constexpr std::chrono::milliseconds kLook(50);
constexpr const char* kTorchrunRank = "RANK";
constexpr const char* kSrunRank = "SLURM_PROCID";
constexpr int kMaxLevels = 32;
constexpr std::size_t kLargestEnvironment = std::size_t{4} << 20U;

Result<int> number_of(const LaunchVariable& variable, const char* name) {
  const char* const text = variable(name);
  const std::string_view digits = text != nullptr ? text : "";
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size() && value >= 0) return value;
  return fail(ErrorKind::invalid, "expected a number, found '" + std::string(digits) + "'", name);
}

// `here`: on how many machines the processes are, or how many of them are on this one.
tl::unexpected<Error> several_machines(const LauncherRank& place, const std::string& here) {
  return fail(ErrorKind::unsupported,
              place.launcher + " has started " + std::to_string(place.ranks) +
                  " processes on several machines (" + here +
                  "), and the ranks of a run train on one machine so far",
              place.launcher,
              "start them on one: --nnodes 1 of torchrun, --nodes 1 of srun; docs/distributed.md "
              "says what to do with several");
}

// What PyTorch needs to meet others is set, and by nobody who says how many of them are here: each would do the whole run.
Result<std::optional<LauncherRank>> unknown_launcher(const LaunchVariable& variable) {
  const auto rank = number_of(variable, kTorchrunRank);
  if (!rank) return tl::unexpected(rank.error());
  const auto all = number_of(variable, "WORLD_SIZE");
  if (!all) return tl::unexpected(all.error());
  if (*all == 1) return std::nullopt;
  return fail(ErrorKind::unsupported,
              "RANK, WORLD_SIZE and MASTER_ADDR say that this is process " + std::to_string(*rank) +
                  " of " + std::to_string(*all) +
                  ", and without LOCAL_WORLD_SIZE it is not known how many are on this machine",
              "RANK",
              "start all of them on one machine, by torchrun or srun; to run on this machine "
              "alone, unset RANK");
}

Result<std::optional<LauncherRank>> place_of(LauncherRank place) {
  if (place.rank >= place.ranks) {
    return fail(ErrorKind::invalid,
                "there is no process " + std::to_string(place.rank) + " among " +
                    std::to_string(place.ranks) + ", which are counted from 0",
                place.launcher);
  }
  if (place.ranks == 1) return std::nullopt;
  return place;
}

// srun sets these variables in the steps that it starts; in the script of a batch job they are missing.
Result<std::optional<LauncherRank>> step_of_srun(const LaunchVariable& variable) {
  if (variable(kSrunRank) == nullptr || variable("SLURM_STEP_NUM_TASKS") == nullptr) {
    return std::nullopt;
  }
  const auto rank = number_of(variable, kSrunRank);
  if (!rank) return tl::unexpected(rank.error());
  const auto all = number_of(variable, "SLURM_STEP_NUM_TASKS");
  if (!all) return tl::unexpected(all.error());
  const auto machines = variable("SLURM_STEP_NUM_NODES") != nullptr
                            ? number_of(variable, "SLURM_STEP_NUM_NODES")
                            : Result<int>(1);
  if (!machines) return tl::unexpected(machines.error());
  LauncherRank place{.launcher = "srun", .rank = *rank, .ranks = *all, .round = "0"};
  if (*machines != 1) return several_machines(place, std::to_string(*machines) + " nodes");
  return place_of(std::move(place));
}

// A field of its status, from 3 on. Empty where it cannot be read.
std::string status_field(pid_t process, int number) {
  const auto text = read_file("/proc/" + std::to_string(process) + "/stat", 4096);
  if (!text) return {};
  // The name, in brackets, may hold anything.
  std::istringstream fields(text->substr(std::min(text->size(), text->rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= number; ++i)
    fields >> field;
  return fields ? field : std::string();
}

// Another process with this number has another one.
std::string start_of(pid_t process) {
  return status_field(process, 22);
}

pid_t parent_of(pid_t process) {
  const std::string field = status_field(process, 4);
  pid_t parent = 0;
  std::from_chars(field.data(), field.data() + field.size(), parent);
  return parent;
}

// Whether the process was started with this variable; false where that cannot be read.
bool was_started_with(pid_t process, const char* variable) {
  const auto environment =
      read_file("/proc/" + std::to_string(process) + "/environ", kLargestEnvironment);
  const std::string begin = std::string(variable) + "=";
  return environment && (environment->starts_with(begin) ||
                         environment->find(std::string(1, '\0') + begin) != std::string::npos);
}

// The nearest ancestor of this process that has no rank: there may be scripts between the two, one for each rank.
pid_t launcher_of(const LauncherRank& place) {
  const char* const variable = place.launcher == "torchrun" ? kTorchrunRank : kSrunRank;
  pid_t process = ::getppid();
  for (int level = 0; level < kMaxLevels && was_started_with(process, variable); ++level) {
    const pid_t parent = parent_of(process);
    if (parent <= 0) break;
    process = parent;
  }
  return process;
}

void remove_old_ones(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> old;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::string_view number = std::string_view(name).substr(kPrefix.size());
    pid_t parent = 0;
    std::from_chars(number.data(), number.data() + number.size(), parent);
    if (parent > 0 && ::kill(parent, 0) != 0 && errno == ESRCH) old.push_back(entry.path());
  }
  for (const fs::path& file : old)
    fs::remove(file, ignored);
}

}  // namespace

Result<std::optional<LauncherRank>> launcher_rank_from(const LaunchVariable& variable) {
  const auto is_set = [&variable](const char* name) { return variable(name) != nullptr; };
  if (is_set(kTorchrunRank) && is_set("WORLD_SIZE") && is_set("LOCAL_WORLD_SIZE")) {
    const auto rank = number_of(variable, kTorchrunRank);
    if (!rank) return tl::unexpected(rank.error());
    const auto all = number_of(variable, "WORLD_SIZE");
    if (!all) return tl::unexpected(all.error());
    const auto here = number_of(variable, "LOCAL_WORLD_SIZE");
    if (!here) return tl::unexpected(here.error());
    const char* const round = variable("TORCHELASTIC_RESTART_COUNT");
    LauncherRank place{.launcher = "torchrun",
                       .rank = *rank,
                       .ranks = *all,
                       .round = round != nullptr ? round : "0"};
    if (*all != *here) return several_machines(place, std::to_string(*here) + " on this one");
    return place_of(std::move(place));
  }
  // First: a script in a step may set the variables of PyTorch from those of srun.
  auto step = step_of_srun(variable);
  if (!step || *step) return step;
  if (is_set(kTorchrunRank) && is_set("WORLD_SIZE") && is_set("MASTER_ADDR")) {
    return unknown_launcher(variable);
  }
  return std::nullopt;
}

fs::path meeting_file(const fs::path& folder, const LauncherRank& place) {
  std::string round = place.round;
  std::erase_if(round, [](char c) { return c < '0' || c > '9'; });
  const pid_t launcher = launcher_of(place);
  return folder /
         (std::string(kPrefix) + std::to_string(launcher) + "-" + start_of(launcher) + "-" + round);
}

Result<LaunchedLead> LaunchedLead::begin(const fs::path& file) {
  remove_old_ones(file.parent_path());
  // Locked before it has its name: the others wait for the name, then for the lock.
  const fs::path unnamed = file.string() + ".new";
  Descriptor lock(
      ::open(unnamed.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return tl::unexpected(system_error(errno, "cannot be made", unnamed.string()));
  }
  std::error_code error;
  fs::rename(unnamed, file, error);
  if (error) return tl::unexpected(system_error(error.value(), "cannot be made", file.string()));
  return LaunchedLead(std::move(lock));
}

void LaunchedLead::end(int code) {
  const std::string text = std::to_string(code) + "\n";
  // Should it fail, the others end with an error of their own.
  if (::pwrite(lock_.get(), text.data(), text.size(), 0) < 0) return;
  lock_.reset();
}

Result<int> wait_for_lead(const fs::path& file, std::chrono::nanoseconds patience) {
  const auto deadline = Clock::now() + patience;
  Descriptor lock;
  while (!lock.is_open()) {
    lock = Descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (lock.is_open()) break;
    if (Clock::now() >= deadline) {
      return fail(ErrorKind::timeout, "the process of rank 0 has not begun", file.string(),
                  "start all processes with the same command");
    }
    std::this_thread::sleep_for(kLook);
  }
  while (::flock(lock.get(), LOCK_SH) != 0) {
    if (errno != EINTR) return tl::unexpected(system_error(errno, "cannot wait", file.string()));
  }
  char text[16] = {};
  const ssize_t length = ::pread(lock.get(), text, sizeof text, 0);
  int code = 0;
  const auto [end, error] = std::from_chars(text, text + std::max<ssize_t>(length, 0), code);
  if (error != std::errc()) {
    return fail(ErrorKind::crashed, "the process of rank 0 has ended without a result",
                file.string());
  }
  return code;
}

}  // namespace autotuned::daemon
