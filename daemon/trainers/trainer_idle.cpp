// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_idle.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>

#include "base/process/process_family.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr nanoseconds kLook = std::chrono::milliseconds(1);
constexpr int kIdleLooks = 3;
constexpr nanoseconds kNotable = std::chrono::microseconds(300);  // of a look

// A thread that waits for a CPU uses no time, and is not done.
bool has_runnable_thread(pid_t process) {
  std::error_code gone;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone)) {
    std::ifstream file(thread.path() / "stat");
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    // "7 (name) S 1 ...", where the name may hold anything.
    const std::size_t name_end = stat.rfind(')');
    if (name_end != std::string::npos && name_end + 2 < stat.size() && stat[name_end + 2] == 'R') {
      return true;
    }
  }
  return false;
}

constexpr const char* kWaitPolicy = "env.OMP_WAIT_POLICY";
constexpr nanoseconds kMinLimit = std::chrono::seconds(3);
constexpr nanoseconds kBriefLimit = std::chrono::milliseconds(20);
constexpr int kLimitBlocks = 20;

}  // namespace

bool wait_until_idle(pid_t process, nanoseconds limit) {
  const auto deadline = Clock::now() + limit;
  auto used = cpu_time_of(process);
  for (int looks = 0; looks < kIdleLooks; ++looks) {
    std::this_thread::sleep_for(kLook);
    const auto now = cpu_time_of(process);
    // A process that has ended counts as idle: the next request reports its end.
    if (!used || !now) return true;
    if (*now - *used > kNotable || has_runnable_thread(process)) {
      if (Clock::now() >= deadline) return false;
      looks = -1;
    }
    used = now;
  }
  return true;
}

nanoseconds idle_limit(const Configuration& configuration, const Block& block, bool was_busy) {
  const KnobValue* const policy = configuration.find(kWaitPolicy);
  const bool spins = policy != nullptr && *policy == KnobValue(std::string("active"));
  if (was_busy || spins) return kBriefLimit;
  return std::max(kMinLimit, kLimitBlocks * nanoseconds(block.duration_ns));
}

}  // namespace autotuned::daemon
