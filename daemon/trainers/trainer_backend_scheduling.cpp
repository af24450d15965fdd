// SPDX-License-Identifier: Apache-2.0
// Whether the trainers of TrainerBackend are scheduled alike. A trainer extension runs with the rights of the user, so it can lower the
// priority of a waiting trainer, or bind that to few CPUs: then the blocks of the other one are slow.
#include <fmt/format.h>
#include <sys/types.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/process/thread_settings.hpp"
#include "daemon/trainers/trainer_backend.hpp"

namespace autotuned::daemon {
namespace {

constexpr const char* kWhileItWaited = "while it waited";

}  // namespace

tl::unexpected<Error> TrainerBackend::disturbed(std::string what) {
  return tl::unexpected(Error{.kind = ErrorKind::unsupported,
                              .what = std::move(what),
                              .where = {},
                              .remedy = {},
                              .is_disturbance = true});
}

bool TrainerBackend::has_neighbour(const Trainer& trainer) const {
  return std::ranges::any_of(trainers_, [&trainer](const Trainer& other) {
    return &other != &trainer && other.client.is_alive();
  });
}

GroupSettings TrainerBackend::settings_of(const Trainer& trainer) {
  return trainer.client.is_suspended() ? trainer.settings : settings_of_group(trainer.client.pid());
}

void TrainerBackend::look_for_interference(Trainer& trainer) {
  if (!trainer.client.is_suspended() || !trainer.interference.empty()) return;
  trainer.interference = changed_settings(trainer.settings, settings_now(trainer.settings));
}

void TrainerBackend::end_changed() {
  for (Trainer& trainer : trainers_) {
    look_for_interference(trainer);
    if (!trainer.interference.empty()) end_and_tell(trainer);
  }
  drop_dead();
  if (trainers_.size() < 2) return;
  const GroupSettings first = settings_of(trainers_.front());
  const bool are_equal = std::ranges::all_of(trainers_, [&first](const Trainer& trainer) {
    return unequal_urgency(first, settings_of(trainer)).empty();
  });
  if (!are_equal) stop();
}

// The trainer is ended: nothing says that the settings can be put back, or that they stay so.
tl::unexpected<Error> TrainerBackend::end_interfered(Trainer& trainer, const std::string& when) {
  const pid_t process = trainer.client.pid();
  end_and_tell(trainer);
  return disturbed(
      fmt::format("the scheduling of the trainer (process {}) was changed from outside {}: {}; a "
                  "plugin may have done it to slow its neighbour",
                  process, when, trainer.interference));
}

Result<void> TrainerBackend::check_scheduling(Trainer& trainer, const GroupSettings& settings) {
  if (!trainer.interference.empty()) return end_interfered(trainer, kWhileItWaited);
  for (Trainer& other : trainers_) {
    if (&other == &trainer || !other.client.is_alive()) continue;
    look_for_interference(other);
    if (!other.interference.empty()) return end_interfered(other, kWhileItWaited);
    const std::string unequal = unequal_urgency(settings, other.settings);
    if (unequal.empty()) continue;
    const std::string what = fmt::format(
        "the trainers (processes {} and {}) are scheduled as {}: a plugin may have "
        "changed the priority of one",
        trainer.client.pid(), other.client.pid(), unequal);
    // Which of the two is as it was started cannot be told.
    end_and_tell(trainer);
    end_and_tell(other);
    return disturbed(what);
  }
  return {};
}

Result<void> TrainerBackend::check_scheduling_after(Trainer& trainer, const GroupSettings& before) {
  // A few milliseconds each time would make it slow, and take no CPU time of which anybody could be accused.
  if (trainer.client.was_stopped()) {
    return disturbed(fmt::format(
        "the trainer (process {}) was stopped and continued from outside while it was timed; a "
        "plugin may have done it, or left a program behind that does",
        trainer.client.pid()));
  }
  // The CPUs of a running trainer may change by themselves: OpenMP may place its threads anew (env.OMP_PROC_BIND).
  // Changed just before it went on.
  if (!trainer.interference.empty()) return end_interfered(trainer, kWhileItWaited);
  trainer.interference = changed_settings(before, settings_now(before), CpusCount::no);
  if (!trainer.interference.empty()) return end_interfered(trainer, "while it was timed");
  for (Trainer& other : trainers_) {
    if (&other == &trainer || !other.client.is_alive()) continue;
    look_for_interference(other);
    if (!other.interference.empty()) return end_interfered(other, kWhileItWaited);
  }
  return {};
}

}  // namespace autotuned::daemon
