// SPDX-License-Identifier: Apache-2.0
// The end of a trainer of TrainerBackend, and of what extensions have started in it.
#include <fmt/format.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/process/process.hpp"
#include "daemon/trainers/trainer_backend.hpp"

namespace autotuned::daemon {
namespace {

// What waits for the end of its trainer, such as a worker at the other end of a pipe, ends sooner.
constexpr std::chrono::nanoseconds kGrace = std::chrono::seconds(1);

}  // namespace

std::string TrainerBackend::end_trainer(Trainer& trainer) {
  const bool may_leave = std::exchange(trainer.has_extension, false);
  if (may_leave && trainer.client.is_alive()) trainer.processes.look();
  trainer.client.stop();
  if (!may_leave) return {};
  const std::vector<pid_t> ended = trainer.processes.end_rest(kGrace, kKillLimit);
  if (ended.empty()) return {};
  return fmt::format(
      "what an extension had started was still running after its trainer had ended (process {}), "
      "and was ended: it could slow other trainers",
      fmt::join(ended, ", "));
}

void TrainerBackend::end_and_tell(Trainer& trainer) {
  const std::string left = end_trainer(trainer);
  if (left.empty() || !spec_.on_warning) return;
  if (told_of_rest_.insert(trainer.key).second) spec_.on_warning(left);
}

}  // namespace autotuned::daemon
