// SPDX-License-Identifier: Apache-2.0
// Blocks and profiles of TrainerBackend, and the preparation of a trainer for them.
#include <fmt/format.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "daemon/common/trainer_plugins.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "daemon/trainers/trainer_idle.hpp"
#include "daemon/trainers/warm_up.hpp"

namespace autotuned::daemon {

namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kProfileSteps = 20;
constexpr std::int64_t kProfileWarmupSteps = 3;
// The limit of a profile. A job whose steps take seconds is profiled over fewer steps: the budget is for trials.
constexpr nanoseconds kProfileLimit = std::chrono::seconds(10);
constexpr const char* kTimedCheckpoint = "timed.checkpoint";
constexpr int kStepsAfterReset = 3;
constexpr const char* kGraph = "cuda.graph";
// A GPU is idle at the begin and at the end of a block, so each block includes the time that the host needs to get
// ahead of it. With this many steps that part is small. Fewer are made if they would take longer than this limit.
constexpr std::int64_t kStepsOnGpu = 8;
constexpr nanoseconds kMaxForStepsOnGpu = std::chrono::milliseconds(400);
// A busy machine takes less for a switch that costs nothing.
constexpr nanoseconds kNotableSwitch = std::chrono::seconds(1);

// The part of a block's time that another trainer may use as CPU time, one in this many; at least as much as stopping
// it takes.
constexpr int kToleratedPart = 100;
constexpr nanoseconds kMinDisturbance = std::chrono::microseconds(500);

// If checkpoints take this share of the training's time, a block lasts until the next one is due and includes it. If
// they are rarer than this, such a long block would cost too much of the budget.
constexpr double kNotableCheckpoints = 0.01;
constexpr nanoseconds kMaxBetweenCheckpoints = std::chrono::seconds(10);

// A trial of an extension's knob whose reference works on after its blocks.
constexpr const char* kBesideSpinning =
    "the trainer of the reference is never at rest after a block: a knob of an extension cannot be "
    "timed while threads spin (env.OMP_WAIT_POLICY, env.GOMP_SPINCOUNT)";

// The same of the candidate, which has not come to rest within `limit`.
std::string at_work_text(pid_t trainer, nanoseconds limit, const Block& block) {
  const auto seconds = [](nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  return fmt::format(
      "the trainer (process {}) was still at work {:.2f} s after a block of {:.2f} s had ended: "
      "work is put off past its blocks, or threads spin, and a knob of an extension cannot be "
      "timed while threads spin",
      trainer, seconds(limit), seconds(nanoseconds(block.duration_ns)));
}

}  // namespace

Result<void> TrainerBackend::prepare(Trainer& trainer, const Configuration& configuration) {
  if (trainer.configuration == configuration) return {};
  const auto begin = Clock::now();
  auto prepared =
      ask(trainer, "prepare", {{"configuration", configuration.to_json()}}, spec_.block_limit);
  if (!prepared) {
    // A trainer that could not take it on is in between: it must be told everything next time.
    trainer.configuration = Configuration{};
    return tl::unexpected(prepared.error());
  }
  // The first steps under another value run cold: they belong to neither configuration.
  int warmup_steps = steps_to_record(configuration);
  const Configuration change = trainer.configuration.change_to(configuration);
  for (const auto& [name, value] : change.values()) {
    if (const auto knob = recipes::find_knob(spec_.knobs, name)) {
      warmup_steps = std::max(warmup_steps, knob->warmup_steps);
    }
  }
  trainer.configuration = configuration;
  // A trainer is warm after a second; more steps of a slow job would use up the budget of the trials.
  if (trainer.step >= kSlowStep) warmup_steps = std::min(warmup_steps, 1);
  std::optional<Block> stepped;
  if (warmup_steps > 0) {
    auto warmed = ask(trainer, "run", {{"minimum_ns", 0}, {"minimum_steps", warmup_steps}},
                      spec_.block_limit);
    if (!warmed) return tl::unexpected(warmed.error());
    if (auto block = Block::from_json(*warmed)) stepped = std::move(*block);
  }
  note_switch(trainer, Clock::now() - begin, stepped);
  return {};
}

int TrainerBackend::steps_to_record(const Configuration& configuration) const {
  const auto graph = recipes::find_knob(spec_.knobs, kGraph);
  const KnobValue* const value = configuration.find(kGraph);
  const bool is_on = graph && value != nullptr && *value != graph->default_value;
  return is_on ? graph->warmup_steps : 0;
}

// The usual number of steps is made in any case; their extra time, such as for recording a graph, belongs to the
// switch.
void TrainerBackend::note_switch(Trainer& trainer, nanoseconds taken,
                                 const std::optional<Block>& stepped) {
  const std::int64_t told = stepped ? stepped->one_time_ns : trainer.told_one_time_ns;
  const bool has_filled = std::exchange(trainer.told_one_time_ns, told) != told;
  Switch noted{.beside_steps = taken};
  if (stepped) {
    noted.in_steps = nanoseconds(stepped->duration_ns);
    noted.steps = stepped->steps;
    noted.beside_steps -= noted.in_steps;
    if (has_filled) noted.beside_steps -= nanoseconds(told);
  }
  // A second switch to it finds what the first one has left.
  trainer.switches.try_emplace(trainer.configuration.canonical_text(), noted);
}

nanoseconds TrainerBackend::switch_time(const Trainer& trainer,
                                        const Configuration& configuration) {
  const auto found = trainer.switches.find(configuration.canonical_text());
  if (found == trainer.switches.end()) return nanoseconds(0);
  const Switch& noted = found->second;
  const nanoseconds taken =
      noted.beside_steps + std::max(noted.in_steps - trainer.step * noted.steps, nanoseconds(0));
  return taken < kNotableSwitch ? nanoseconds(0) : taken;
}

Result<Descriptor> TrainerBackend::lock_measurement() {
  return measurement_lock_.acquire(*cancel_);
}

void TrainerBackend::suspend_others(const Trainer* working) {
  for (Trainer& other : trainers_) {
    if (&other == working || !other.client.is_alive() || other.client.is_suspended()) continue;
    release_memory(other);
    other.client.suspend();
    other.settings = settings_of_group(other.client.pid());
  }
}

bool TrainerBackend::is_on_gpu() const {
  return get_string(facts_, "device").value_or("").starts_with("cuda");
}

void TrainerBackend::release_memory(Trainer& trainer) {
  if (!is_on_gpu()) return;
  // A trainer that does not know the request keeps what it has.
  const auto released = trainer.client.request("release", Json::object(), spec_.block_limit);
  trainer.has_released = trainer.has_released || released.has_value();
}

void TrainerBackend::end_others(const std::string& key) {
  for (Trainer& other : trainers_) {
    if (other.key != key) end_and_tell(other);
  }
  drop_dead();
}

std::vector<std::string> TrainerBackend::keys_beside(const std::string& key) const {
  std::vector<std::string> keys;
  for (const Trainer& other : trainers_) {
    if (other.key != key) keys.push_back(other.key);
  }
  return keys;
}

void TrainerBackend::remember_misfits(const std::string& key,
                                      const std::vector<std::string>& others) {
  for (const std::string& other : others) {
    misfits_.emplace(key, other);
    misfits_.emplace(other, key);
  }
}

template <typename Value>
Result<Value> TrainerBackend::make_room_for(const Configuration& configuration,
                                            const std::function<Result<Value>()>& work) {
  const std::string key = process_knobs_.key_of(configuration);
  auto done = work();
  if (done || !is_resource_shortage(done.error())) return done;
  const std::vector<std::string> others = keys_beside(key);
  if (others.empty()) return done;
  stop();
  auto alone = work();
  if (alone) remember_misfits(key, others);
  return alone;
}

Result<Json> TrainerBackend::ask_undisturbed(Trainer& trainer, const std::string& name, Json fields,
                                             nanoseconds limit) {
  suspend_others(&trainer);
  for (Trainer& other : trainers_) {
    if (&other != &trainer) (void)other.processes.cpu_time_since_last_look();
  }
  look_for_interference(trainer);
  const GroupSettings settings =
      has_neighbour(trainer) ? settings_of_group(trainer.client.pid()) : GroupSettings{};
  if (auto fair = check_scheduling(trainer, settings); !fair) return tl::unexpected(fair.error());
  (void)trainer.client.was_stopped();  // what was before does not matter
  const auto begin = Clock::now();
  auto answer = ask(trainer, name, std::move(fields), limit);
  const nanoseconds elapsed = Clock::now() - begin;
  if (!answer) return answer;
  if (auto fair = check_scheduling_after(trainer, settings); !fair) {
    return tl::unexpected(fair.error());
  }
  for (Trainer& other : trainers_) {
    if (&other == &trainer) continue;
    const nanoseconds used = other.processes.cpu_time_since_last_look();
    if (used <= std::max(kMinDisturbance, elapsed / kToleratedPart)) continue;
    const double share = static_cast<double>(used.count()) / static_cast<double>(elapsed.count());
    // No failure of the candidate: on a loaded machine the trainer itself may stop late.
    return disturbed(
        fmt::format("what the waiting trainer (process {}) started used {} % of a CPU during the "
                    "block of the other trainer: a knob or a plugin slows its neighbour",
                    other.client.pid(), std::llround(100.0 * share)));
  }
  return answer;
}

Result<void> TrainerBackend::warm_up(Trainer& trainer) {
  const auto begin = Clock::now();
  for (WarmUp rule; !rule.is_over();) {
    auto answer =
        ask(trainer, "run", {{"minimum_ns", WarmUp::kBlock.count()}, {"minimum_steps", 1}},
            WarmUp::kBlock * 4 + spec_.block_limit);
    if (!answer) return tl::unexpected(answer.error());
    const auto block = Block::from_json(*answer);
    if (!block) return tl::unexpected(block.error());
    if (block->steps <= 0) {
      return fail(ErrorKind::internal, "a block of the trainer has no steps");
    }
    trainer.step = nanoseconds(block->duration_ns / block->steps);
    rule.add(block->samples_per_second(), nanoseconds(block->duration_ns), block->steps);
  }
  trainer.is_warm = true;
  auto settled = reset(trainer);
  warm_up_time_ = Clock::now() - begin;
  return settled;
}

Result<void> TrainerBackend::reset(Trainer& trainer) {
  auto restored = ask(trainer, "restore", {{"name", "initial"}}, spec_.block_limit);
  if (!restored) return tl::unexpected(restored.error());
  // Warm up again after a restore, so that the first block is not slower.
  const int usual = std::max(kStepsAfterReset, steps_to_record(trainer.configuration));
  const int steps = trainer.step >= kSlowStep ? 1 : usual;
  auto settled =
      ask(trainer, "run", {{"minimum_ns", 0}, {"minimum_steps", steps}}, spec_.block_limit);
  if (!settled) return tl::unexpected(settled.error());
  return {};
}

bool TrainerBackend::share_process(const Configuration& one, const Configuration& other) const {
  return process_knobs_.key_of(one) == process_knobs_.key_of(other);
}

Result<void> TrainerBackend::make_ready(const Configuration& configuration,
                                        tuner::ProcessChoice process,
                                        const Configuration* reference) {
  const auto lock = lock_measurement();
  if (!lock) return tl::unexpected(lock.error());
  failed_key_.clear();
  end_changed();
  const std::string key = process_knobs_.key_of(configuration);
  if (process == tuner::ProcessChoice::fresh) {
    const bool is_of_candidate =
        reference != nullptr &&
        differ_in_extensions(spec_.extension_knobs, configuration, *reference);
    for (Trainer& trainer : trainers_) {
      if (trainer.key != key) continue;
      if (!is_of_candidate) {
        end_and_tell(trainer);
        continue;
      }
      // Whatever it does, it does it beside the next blocks.
      const std::string left = end_trainer(trainer);
      if (!left.empty()) return fail(ErrorKind::unsupported, left);
    }
  }
  if (process == tuner::ProcessChoice::alone) stop();
  return make_room_for<void>(configuration, [&]() -> Result<void> {
    auto trainer = trainer_for(configuration);
    if (!trainer) return tl::unexpected(trainer.error());
    return (*trainer)->is_warm ? reset(**trainer) : warm_up(**trainer);
  });
}

Result<Block> TrainerBackend::run_block(const Configuration& configuration,
                                        const tuner::BlockRequest& request) {
  const auto lock = lock_measurement();
  if (!lock) return tl::unexpected(lock.error());
  const std::string key = process_knobs_.key_of(configuration);
  if (failed_key_ == key) end_others(key);
  failed_key_.clear();
  const bool is_alone = keys_beside(key).empty();
  auto block =
      make_room_for<Block>(configuration, [&] { return measure_block(configuration, request); });
  // A refused rung of the ladder is no failure of the configuration, but what disturbed it may be the other trainer's.
  const bool has_failed = !block && (request.reuse.empty() || block.error().is_disturbance);
  if (has_failed && !is_alone) failed_key_ = key;
  return block;
}

Result<void> TrainerBackend::see_out(const Trainer& trainer, const Configuration& configuration,
                                     const Configuration* reference, Clock::time_point begin,
                                     const Block& block) {
  if (spec_.extension_knobs.empty()) return {};
  const auto known = [this](const std::string& key) -> std::optional<bool> {
    const auto found = becomes_idle_.find(key);
    return found == becomes_idle_.end() ? std::nullopt : std::optional(found->second);
  };
  // If only a live knob differs, both are the same process.
  const auto reference_becomes_idle =
      reference == nullptr ? std::nullopt : known(process_knobs_.key_of(*reference));
  const bool was_busy = known(trainer.key) == false;
  const nanoseconds limit = idle_limit(configuration, block, was_busy);
  const bool is_seen = wait_until_idle(trainer.client.pid(), limit);
  const nanoseconds seen = Clock::now() - begin;
  becomes_idle_[trainer.key] = is_seen;
  if (reference != nullptr) {
    const bool differ = differ_in_extensions(spec_.extension_knobs, configuration, *reference);
    // Threads that spin without any extension are not the fault of an extension. But if both configurations have
    // extensions, spinning threads may hide their work.
    const bool may_hide =
        process_knobs_.uses_extension(configuration) && reference_becomes_idle == true;
    if (!is_seen && (differ || may_hide)) {
      return fail(ErrorKind::unsupported, at_work_text(trainer.client.pid(), limit, block));
    }
    if (differ && reference_becomes_idle == false)
      return fail(ErrorKind::unsupported, kBesideSpinning);
  }
  if (!is_seen) return {};
  const bool is_candidate = reference != nullptr;
  if (auto fault = outside_time_.add(configuration, is_candidate, block, seen)) {
    return fail(ErrorKind::unsupported, *std::move(fault));
  }
  return {};
}

std::int64_t TrainerBackend::least_steps(const Trainer& trainer) const {
  if (!is_on_gpu()) return 1;
  return std::clamp<std::int64_t>(kMaxForStepsOnGpu / std::max(trainer.step, nanoseconds(1)), 1,
                                  kStepsOnGpu);
}

Result<Block> TrainerBackend::measure_block(const Configuration& configuration,
                                            const tuner::BlockRequest& request) {
  auto trainer = trainer_for(configuration);
  if (!trainer) return tl::unexpected(trainer.error());
  if (!(*trainer)->is_warm) {
    if (auto warm = warm_up(**trainer); !warm) return tl::unexpected(warm.error());
  }
  const std::int64_t steps = std::max(request.minimum_steps, least_steps(**trainer));
  // Also asks for the time of this many steps: from it the trainer decides how long the loader's ring may take to fill
  // again.
  nanoseconds least =
      std::max(request.minimum_duration, is_on_gpu() ? steps * (*trainer)->step : nanoseconds(0));
  Json fields = {{"minimum_steps", steps}};
  if (!request.reuse.empty()) fields["reuse"] = request.reuse;
  if (std::exchange((*trainer)->has_released, false)) fields["warmup_steps"] = 1;
  if (checkpoint_share_ratio_ > 0.0 && request.reuse.empty()) {
    least = std::max(least, spec_.recipe.checkpoint_every);
    fields["checkpoint_path"] = (spec_.folder / kTimedCheckpoint).string();
  }
  fields["minimum_ns"] = least.count();
  const auto begin = Clock::now();
  auto answer = ask_undisturbed(**trainer, "run", std::move(fields), least * 4 + spec_.block_limit);
  if (!answer) return tl::unexpected(answer.error());
  auto block = Block::from_json(*answer);
  if (block) {
    if (block->steps > 0) (*trainer)->step = nanoseconds(block->duration_ns / block->steps);
    (*trainer)->told_one_time_ns = block->one_time_ns;
    block->one_time_ns += switch_time(**trainer, configuration).count();
  }
  if (block && request.reuse.empty()) {
    const auto seen = see_out(**trainer, configuration, request.reference, begin, *block);
    if (!seen) return tl::unexpected(seen.error());
  }
  return block;
}

Result<tuner::StepProfile> TrainerBackend::profile(const Configuration& configuration) {
  const auto lock = lock_measurement();
  if (!lock) return tl::unexpected(lock.error());
  end_changed();
  auto trainer = trainer_for(configuration);
  if (!trainer) return tl::unexpected(trainer.error());
  auto answer = ask_undisturbed(**trainer, "profile",
                                {{"count", kProfileSteps},
                                 {"warmup_steps", kProfileWarmupSteps},
                                 {"maximum_ns", kProfileLimit.count()},
                                 {"path", ""},
                                 {"checkpoint_path", (spec_.folder / kTimedCheckpoint).string()}},
                                spec_.block_limit * 2);
  if (!answer) return tl::unexpected(answer.error());
  const double checkpoints =
      get_number(member(*answer, "metrics"), "train.checkpoint_ratio").value_or(0.0);
  const bool is_in_blocks =
      checkpoints >= kNotableCheckpoints && spec_.recipe.checkpoint_every <= kMaxBetweenCheckpoints;
  checkpoint_share_ratio_ = is_in_blocks ? checkpoints : 0.0;
  return tuner::StepProfile{member(*answer, "metrics"), member(*answer, "spans"),
                            member(*answer, "operators")};
}

}  // namespace autotuned::daemon
