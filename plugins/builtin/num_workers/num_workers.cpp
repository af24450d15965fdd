// SPDX-License-Identifier: Apache-2.0
// How many threads should prepare batches? As many as it takes to produce samples at the rate at which
// the step could use them, and no more: on the CPU they take time from the training itself.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kWorkers = "loader.workers";
constexpr const char* kNativeThreads = "loader.native_threads";  // of scripts alone
// A step that waits less than this has nothing to win that could be measured.
constexpr double kMinWaitRatio = 0.02;
constexpr double kBusyRatio = 0.9;
// A thread that computes for so much of the step's own time needs a CPU of its own.
constexpr double kBusyThread = 0.5;
// Beyond so many the step hardly computes, and the number says nothing.
constexpr double kMaxCores = 1000.0;
// On a GPU, how much faster than the step of now the loader should be. Workers that are ahead sleep. Workers that just keep up
// hide what any change of the step gains: in 16 bits a step takes half of its time or less, and would wait for them.
constexpr double kHeadroom = 3.0;

struct Demand {
  double wait_ratio = 0.0;
  double loading_ratio = 0.0;               // of a step: what loading costs it, the wait included
  double compute_ns = 0.0;                  // of a step, without waiting for data
  std::optional<double> production_ns;      // of a step's samples, by one worker
  std::optional<double> utilization_ratio;  // of the CPUs that we may use
};

std::optional<Demand> demand_of(const Situation& situation, std::int64_t workers) {
  // On a GPU a trace knows which waits hide behind kernels. Without one both are the same.
  const auto wait = situation.first_metric({"parts.data_loading_ratio", "step.data_wait_ratio"});
  const auto duration = situation.metric("step.duration_ns");
  if (!wait || !duration || *duration <= 0.0) return std::nullopt;
  Demand demand{.wait_ratio = std::clamp(*wait, 0.0, 1.0),
                .production_ns = std::nullopt,
                .utilization_ratio = situation.metric("cpu.utilization_ratio")};
  demand.loading_ratio = situation.metric("loader.cost_ratio").value_or(demand.wait_ratio);
  demand.compute_ns = *duration * (1.0 - demand.wait_ratio);
  const auto sample = situation.metric("loader.sample_ns");
  const auto samples = situation.metric("step.samples");
  if (sample && samples && *sample > 0.0 && *samples > 0.0) {
    demand.production_ns = *sample * *samples;
  } else if (workers == 0) {
    // The training thread prepares the batch itself, so its wait is the work.
    demand.production_ns = *duration * demand.wait_ratio;
  }
  return demand;
}

// What one worker takes for the samples of a step, over the step's own time: how many workers would just keep up.
double demand_ratio(const Demand& demand, std::int64_t now) {
  const double compute_ns = std::max(demand.compute_ns, 1.0);
  const double share = std::max(1.0 - demand.wait_ratio, 1e-3);
  return demand.production_ns ? *demand.production_ns / compute_ns
                              : static_cast<double>(now) / share;
}

// The fewest workers that keep up with the step, at least one, on a machine with CPUs for all of them.
double workers_wanted(const Demand& demand, std::int64_t now) {
  return std::ceil(std::max(demand_ratio(demand, now), 1.0));
}

// Whether the thread that launches the step needs a CPU of its own if workers keep up with it. On a GPU it always does:
// work that is launched late is done late.
bool is_launching_busy(const Situation& situation, const Demand& demand, std::int64_t now) {
  if (situation.is_on_gpu() || !demand.utilization_ratio) return true;
  const double step_ns = demand.compute_ns / std::max(1.0 - demand.wait_ratio, 1e-3);
  const double used_ns =
      *demand.utilization_ratio * static_cast<double>(situation.cpus_allowed()) * step_ns;
  // Without workers all that is produced is produced by that thread, while it waits.
  const double produced_ns =
      now == 0 ? step_ns - demand.compute_ns : demand.production_ns.value_or(0.0);
  return used_ns - produced_ns > kBusyThread * demand.compute_ns;
}

// The most workers: the number of CPUs, less one if the launching thread needs its own. If that many cannot keep up,
// the thread mostly waits for them; then, for jobs on the CPU, all CPUs are for workers.
std::int64_t most_workers(const Situation& situation, const Demand& demand, std::int64_t now) {
  const std::int64_t cpus = situation.cpus_allowed();
  const bool keep_up = workers_wanted(demand, now) <= static_cast<double>(cpus - 1);
  const bool is_one_kept =
      (situation.is_on_gpu() || keep_up) && is_launching_busy(situation, demand, now);
  const std::int64_t most = std::max<std::int64_t>(1, is_one_kept ? cpus - 1 : cpus);
  return std::min(situation.knob(kWorkers)->maximum, most);
}

// A step with `workers` takes as long as the slower of computing and producing. Workers also need CPU time: without
// idle CPU time nothing can be gained.
double predicted_gain(const Demand& demand, std::int64_t workers) {
  double gain = sdk::gain_without(demand.wait_ratio);
  if (demand.production_ns) {
    const double step_ns = demand.compute_ns / std::max(1.0 - demand.wait_ratio, 1e-3);
    const double produced_ns = *demand.production_ns / static_cast<double>(workers);
    gain = std::min(gain, step_ns / std::max(produced_ns, 1.0));
  }
  if (demand.utilization_ratio && *demand.utilization_ratio > 0.0) {
    gain = std::min(gain, 1.0 / *demand.utilization_ratio);
  }
  return std::max(gain, 1.0);
}

// More workers than needed, on CPUs that nothing else uses: where a step on a GPU becomes faster, they still keep up.
std::int64_t with_headroom(const Situation& situation, const Demand& demand, std::int64_t now,
                           std::int64_t needed, std::int64_t most) {
  if (!situation.is_on_gpu() || !demand.utilization_ratio) return needed;
  const double idle_cpus =
      (1.0 - *demand.utilization_ratio) * static_cast<double>(situation.cpus_allowed());
  const double spare = std::ceil(kHeadroom * demand_ratio(demand, now));
  const double affordable = static_cast<double>(now) + std::floor(idle_cpus / 2.0);
  return std::max(
      needed, static_cast<std::int64_t>(std::min({spare, affordable, static_cast<double>(most)})));
}

std::string count_of_workers(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " worker" : " workers");
}

std::string idle_clause(const Demand& demand) {
  if (!demand.utilization_ratio) return {};
  const double idle = std::clamp(1.0 - *demand.utilization_ratio, 0.0, 1.0);
  return " and " + sdk::percent(idle) + " of the CPU time is not used by this job";
}

// A clause with the number of CPUs that could keep up with this device; empty if this machine has them.
std::string cores_clause(const Demand& demand, std::int64_t now, std::int64_t most) {
  const double wanted = workers_wanted(demand, now);
  if (wanted <= static_cast<double>(most) || wanted > kMaxCores) return {};
  return "; loading fast enough for this device needs about " +
         std::to_string(std::llround(wanted) + 1) + " CPUs, one of them for the launching thread";
}

std::string reason_for_more(const Demand& demand, std::int64_t now, std::int64_t needed) {
  const std::string share = sdk::percent(demand.wait_ratio);
  if (now == 0) {
    const bool is_enough = workers_wanted(demand, now) <= static_cast<double>(needed);
    return "preparing batches takes " + share + " of the step in the training thread" +
           idle_clause(demand) + "; " + count_of_workers(needed) +
           (is_enough ? " would keep up" : " would come closest to that");
  }
  return "with " + count_of_workers(now) + " the step waits " + share + " of its time for data" +
         idle_clause(demand);
}

std::string headroom_clause(std::int64_t count, std::int64_t needed, std::int64_t spare) {
  if (spare == needed || count != spare) return {};
  return ", and " + std::to_string(spare) + " also if other changes make the step faster";
}

// Counts worth trying, best guess first. `spare`: `needed` or more, with headroom for a faster step.
std::vector<std::int64_t> counts_to_try(const Demand& demand, std::int64_t now, std::int64_t needed,
                                        std::int64_t spare) {
  const bool is_busy = demand.utilization_ratio.value_or(0.0) > kBusyRatio;
  if (demand.wait_ratio >= kMinWaitRatio) {
    // This number should suffice. If steps still wait, the workers may be uneven, which one more evens out if there is
    // a CPU for it.
    if (spare <= now) return is_busy ? std::vector<std::int64_t>{} : std::vector{now + 1};
    std::vector<std::int64_t> counts = {spare, needed};
    if (spare == needed) {
      counts = {needed, needed - 1};
      if (!is_busy) counts.push_back(needed + 1);
    }
    std::erase_if(counts, [&](std::int64_t count) { return count <= now; });
    return counts;
  }
  // More workers than needed cost something only where they compete for the CPUs.
  const bool do_compete = is_busy || demand.loading_ratio - demand.wait_ratio >= kMinWaitRatio;
  if (demand.production_ns && do_compete && needed < now) return {needed};
  return {};
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kWorkers);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<std::int64_t>(kNativeThreads).value_or(0) > 0) {
    return sdk::none("threads of C++ make the batches, and worker processes none");
  }
  const auto now = situation.incumbent<std::int64_t>(kWorkers);
  const auto demand = now ? demand_of(situation, *now) : std::nullopt;
  if (!demand) return sdk::none("the profile does not say how long the step waits for data");

  const std::int64_t most = most_workers(situation, *demand, *now);
  const auto needed =
      static_cast<std::int64_t>(std::min(workers_wanted(*demand, *now), static_cast<double>(most)));
  const std::string cores = cores_clause(*demand, *now, most);
  const std::int64_t spare = with_headroom(situation, *demand, *now, needed, most);
  const std::vector<std::int64_t> counts = counts_to_try(*demand, *now, needed, spare);
  if (counts.empty() && demand->wait_ratio >= kMinWaitRatio) {
    return sdk::none("the step waits " + sdk::percent(demand->wait_ratio) +
                     " of its time for data, but the CPUs are busy, so another worker would only "
                     "slow down the others" +
                     cores);
  }
  if (counts.empty()) {
    return sdk::none("the step waits only " + sdk::percent(demand->wait_ratio) +
                     " of its time for data");
  }
  Answer answer;
  for (const std::int64_t count : counts) {
    const sdk::Json change = {{kWorkers, count}};
    if (count > most || situation.has_lost(change)) continue;
    const bool is_more = count > *now;
    answer.add(
        change, situation.expected_gain(change, is_more ? predicted_gain(*demand, count) : 1.03),
        is_more
            ? reason_for_more(*demand, *now, needed) + headroom_clause(count, needed, spare) + cores
            : count_of_workers(*now) + " compete with the training for " +
                  std::to_string(situation.cpus_allowed()) + " CPUs, and " +
                  count_of_workers(needed) + " would keep up");
  }
  if (!answer.candidates.empty()) return answer;
  const std::int64_t cpus = situation.cpus_allowed();
  if (*now < most) {
    return sdk::none("worker counts near " + std::to_string(needed) +
                     " were tried and were not faster than " + std::to_string(*now) + " workers" +
                     cores);
  }
  return sdk::none((most < cpus
                        ? "each CPU except that of the launching thread already has a worker"
                        : "each of the " + std::to_string(most) + " CPUs already has a worker") +
                   cores);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN(
    "num_workers", "1.1",
    "Chooses the number of threads that prepare batches, from the rate of one of them.",
    autotuned::plugins::propose);
