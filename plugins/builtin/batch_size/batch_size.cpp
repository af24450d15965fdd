// SPDX-License-Identifier: Apache-2.0
// How many samples per step? A step has costs that do not depend on its size: starting operators,
// updating parameters, waking threads. More samples share them, until memory or the caches run out.
//
// The search jumps up by four while the time per sample still falls, guided by a model of its own
// trials, and steps back where it went too far. What is kept is always a size that was run.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;
using sdk::Trial;

constexpr const char* kBatchSize = "batch_size";
constexpr std::int64_t kJump = 4;
// A step up that promises less is not worth the samples of its trial.
constexpr double kMinGain = 1.02;
// The part of the memory limit that predictions may use. The model of memory is a line through measured peaks, and an
// allocator rounds; with one peak it is a guess.
constexpr double kMemoryMargin = 0.98;
constexpr double kGuessedMemoryMargin = 0.95;
// The smallest increase that is worth a trial, as a part of the present size; larger while the gain is a guess because
// no other size was measured.
constexpr std::int64_t kMinStep = 40;  // one in so many
constexpr std::int64_t kMinGuessedStep = 4;
// Starting an operator and its share of the backward pass, on the CPU that starts it.
constexpr double kOperatorOverheadNs = 4'000.0;
constexpr double kUnknownOverheadShare = 0.2;

// The size that a trial ran; 0 when it is none of a batch size.
std::int64_t size_of(const Trial& trial) {
  return sdk::as<std::int64_t>(sdk::member(trial.change, kBatchSize)).value_or(0);
}

// The size that it was compared with; 0 when not told.
std::int64_t reference_of(const Trial& trial) {
  return trial.compared_with<std::int64_t>(kBatchSize).value_or(0);
}

struct MemoryUse {
  double fixed_bytes = 0.0;
  double bytes_per_sample = 0.0;  // 0: not known
  bool is_guessed = true;         // from one size
};

// A line through the two largest measured sizes. With one size, all memory is assumed to grow with the batch, which
// overestimates it.
MemoryUse memory_use(const Situation& situation, std::int64_t now,
                     const std::vector<Trial>& trials) {
  std::vector<std::pair<std::int64_t, std::int64_t>> peaks;
  const auto peak = situation.metric(situation.is_on_gpu() ? "memory.peak_device_bytes"
                                                           : "memory.peak_host_bytes");
  if (peak && *peak > 0.0) peaks.emplace_back(now, std::llround(*peak));
  for (const Trial& trial : trials) {
    const bool has_peak = size_of(trial) > 0 && trial.peak_memory_bytes > 0 && !trial.is_failed();
    if (has_peak && situation.is_against_incumbent(trial, kBatchSize)) {
      peaks.emplace_back(size_of(trial), trial.peak_memory_bytes);
    }
  }
  if (peaks.empty()) return {};
  std::ranges::sort(peaks, std::greater<>());
  const auto& [size, bytes] = peaks.front();
  const auto smaller = std::ranges::find_if(
      peaks, [&](const auto& other) { return other.first < peaks.front().first; });
  if (smaller != peaks.end() && smaller->second < bytes) {
    const double slope =
        static_cast<double>(bytes - smaller->second) / static_cast<double>(size - smaller->first);
    return {static_cast<double>(bytes) - slope * static_cast<double>(size), slope, false};
  }
  return {0.0, static_cast<double>(bytes) / static_cast<double>(size), true};
}

std::int64_t memory_limit_bytes(const Situation& situation) {
  const std::int64_t limit = situation.integer("permissions", "memory_limit_bytes");
  if (limit > 0) return limit;
  const std::int64_t memory = situation.is_on_gpu()
                                  ? situation.integer("job", "device_memory_bytes")
                                  : situation.integer("environment", "memory_allowed_bytes");
  return memory / 10 * 9;
}

struct Limit {
  std::int64_t size = 0;
  std::string cause;
};

Limit limit_of(const Situation& situation, const MemoryUse& memory) {
  Limit limit{situation.knob(kBatchSize)->maximum, "the knob's largest value"};
  const auto lower = [&](std::int64_t size, std::string cause) {
    if (size < limit.size) limit = {size, std::move(cause)};
  };
  if (const std::int64_t most = situation.integer("permissions", "batch_size_max"); most > 0) {
    lower(most, "the recipe's tune.batch_size.max");
  }
  if (const std::int64_t all = situation.integer("job", "train_samples"); all > 0) {
    lower(all, "the size of the data set");
  }
  const std::int64_t bytes = memory_limit_bytes(situation);
  if (bytes > 0 && memory.bytes_per_sample > 0.0) {
    const double margin = memory.is_guessed ? kGuessedMemoryMargin : kMemoryMargin;
    const double room = static_cast<double>(bytes) * margin - memory.fixed_bytes;
    const double fits = std::clamp(room / memory.bytes_per_sample, 0.0, 1e15);
    lower(static_cast<std::int64_t>(fits),
          "the memory limit of " + format_bytes(bytes) +
              " (tune.memory_limit, or the memory that was free when the run began)");
  }
  return limit;
}

// The share of the step's time that does not depend on the batch size, at the size of now.
struct Overhead {
  double share = 0.0;
  bool is_measured = false;  // by an own trial
  std::string reason;        // where a trace of a GPU knows it
};

// Kernels that wait for their launch, and multiprocessors that a kernel does not fill: with more samples both are less.
std::optional<Overhead> by_trace(const Situation& situation) {
  const auto waiting = situation.metric("device.launch_wait_ratio");
  const auto unfilled = situation.metric("device.unfilled_ratio");
  if (!situation.is_on_gpu() || !waiting || !unfilled) return std::nullopt;
  return Overhead{std::clamp(*waiting + *unfilled, 0.02, 0.9), false,
                  "the GPU waits for launches for " + sdk::percent(*waiting) +
                      " of the time, and kernels fill only a part of it for " +
                      sdk::percent(*unfilled)};
}

Overhead overhead_of(const Situation& situation, std::int64_t now,
                     const std::vector<Trial>& trials) {
  // Time per sample is a + c / size: two sizes, whose rates were compared, give c.
  for (auto trial = trials.rbegin(); trial != trials.rend(); ++trial) {
    const auto size = static_cast<double>(size_of(*trial));
    const auto reference = static_cast<double>(reference_of(*trial));
    // A size that was slower met another limit, of which this model knows nothing.
    if (size <= reference || reference <= 0.0 || trial->ratio <= 1.0) continue;
    if (trial->is_failed() || !situation.is_against_incumbent(*trial, kBatchSize)) continue;
    // In units of the reference's time per sample.
    const double fixed = (1.0 - 1.0 / trial->ratio) / (1.0 / reference - 1.0 / size);
    const double rest = 1.0 - fixed / reference;
    const double at_now = fixed / static_cast<double>(now);
    return {std::clamp(at_now / std::max(at_now + rest, 1e-6), 0.0, 0.95), true, {}};
  }
  if (auto overhead = by_trace(situation)) return *overhead;
  const auto operators = situation.metric("operators.count_per_step");
  const auto duration = situation.metric("step.duration_ns");
  if (!operators || !duration || *duration <= 0.0) return {kUnknownOverheadShare, false, {}};
  return {std::clamp(*operators * kOperatorOverheadNs / *duration, 0.02, 0.9), false, {}};
}

double predicted_gain(const Overhead& overhead, std::int64_t now, std::int64_t size) {
  const double kept = static_cast<double>(now) / static_cast<double>(size);
  return std::max(1.0, sdk::gain_without(overhead.share * (1.0 - kept)));
}

// A size that is known to be worse than the incumbent's.
struct Loss {
  std::int64_t size = 0;
  std::optional<std::string> failure;  // why it could not run
  double ratio = 0.0;                  // its rate over that of now; 0: not compared directly
};

// The smallest size above the incumbent's that lost. The incumbent is the best so far, so a size that lost to one of
// its predecessors is worse than it, too, and so are the predecessors.
std::optional<Loss> smallest_loss(const Situation& situation, std::int64_t now,
                                  const std::vector<Trial>& trials) {
  std::optional<Loss> smallest;
  const auto consider = [&](Loss loss) {
    if (loss.size > now && (!smallest || loss.size <= smallest->size)) smallest = std::move(loss);
  };
  const std::int64_t limit = memory_limit_bytes(situation);
  for (const Trial& trial : trials) {
    if (!situation.is_against_incumbent(trial, kBatchSize)) continue;
    if (trial.is_accepted()) consider({reference_of(trial), std::nullopt, 0.0});
    if (trial.is_failed()) consider({size_of(trial), trial.failure, 0.0});
    const bool is_direct = reference_of(trial) == now || reference_of(trial) == 0;
    // However fast: a smaller one may be, too.
    if (trial.is_rejected() && limit > 0 && trial.peak_memory_bytes > limit) {
      consider({size_of(trial), "more memory than " + format_bytes(limit), 0.0});
    } else if (trial.is_rejected()) {
      consider({size_of(trial), std::nullopt, is_direct ? trial.ratio : 0.0});
    }
  }
  return smallest;
}

// A handy size: a multiple of 8 from 16 up, so that vectors and tensor cores are filled.
std::int64_t rounded(std::int64_t size) {
  return size >= 16 ? size / 8 * 8 : size;
}

struct Step {
  std::int64_t size = 0;  // 0: no further
  std::string why_not;
};

// The next size above the incumbent's, without regard to limits.
Step step_up(std::int64_t now, const std::optional<Loss>& loss) {
  if (!loss) return {now * kJump, {}};
  if (loss->failure) {
    const std::int64_t middle =
        loss->size >= now * 3 ? now * 2 : rounded(now + (loss->size - now) / 2);
    if (loss->size - now > now / kMinStep && middle > now && middle < loss->size) {
      return {middle, {}};
    }
    return {0, "batches of " + format_count(loss->size) + " failed (" +
                   (loss->failure->empty() ? "no reason given" : *loss->failure) +
                   "), and no smaller size is worth a trial"};
  }
  // Slower at four times the size may be faster at twice; equally fast will not be.
  const bool is_flat = loss->ratio > 0.98 && loss->ratio < kMinGain;
  if (!is_flat && loss->size >= now * 3) return {now * 2, {}};
  return {0,
          "batches of " + format_count(loss->size) + " were not faster than " + format_count(now)};
}

// Steps back after a jump if larger sizes are slower: the fastest size may be below.
std::optional<std::int64_t> step_down(const Situation& situation, std::int64_t now,
                                      const std::optional<Loss>& loss,
                                      const std::vector<Trial>& trials) {
  if (!loss || loss->ratio <= 0.0 || loss->ratio > 0.98) return std::nullopt;
  const std::int64_t half = rounded(now / 2);
  const bool was_jumped_over = std::ranges::any_of(trials, [&](const Trial& trial) {
    return trial.is_accepted() && size_of(trial) == now && reference_of(trial) > 0 &&
           reference_of(trial) < half;
  });
  if (!was_jumped_over || situation.has_lost({{kBatchSize, half}})) return std::nullopt;
  return half;
}

std::string reason_of(const Situation& situation, const Overhead& overhead, std::int64_t now,
                      std::int64_t size, const MemoryUse& memory) {
  std::string reason;
  const auto operators = situation.metric("operators.count_per_step");
  if (overhead.is_measured) {
    reason = "about " + sdk::percent(overhead.share) + " of a step of " + format_count(now) +
             " samples does not depend on the number of samples";
  } else if (!overhead.reason.empty()) {
    reason = overhead.reason;
  } else if (operators) {
    reason = "each step launches " + format_count(std::llround(*operators)) + " operators for " +
             format_count(now) + " samples, which takes about " + sdk::percent(overhead.share) +
             " of its time";
  } else {
    reason = "the fixed costs of a step are spread over " + format_count(now) + " samples";
  }
  reason += "; " + format_count(size) +
            (overhead.reason.empty() ? " samples would spread that further"
                                     : " samples give the GPU more work");
  if (memory.bytes_per_sample > 0.0) {
    const double bytes = memory.fixed_bytes + memory.bytes_per_sample * static_cast<double>(size);
    reason += ", and they need at most about " + format_bytes(std::llround(bytes));
  }
  return reason;
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kBatchSize);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  const std::int64_t now = situation.incumbent<std::int64_t>(kBatchSize).value_or(0);
  if (now <= 0) return sdk::none("the incumbent has no batch size");

  const std::vector<Trial> trials = situation.trials();
  const MemoryUse memory = memory_use(situation, now, trials);
  const Limit limit = limit_of(situation, memory);
  const Overhead overhead = overhead_of(situation, now, trials);
  const std::optional<Loss> loss = smallest_loss(situation, now, trials);

  const auto propose_size = [&](std::int64_t size, double gain, std::string reason) {
    const sdk::Json change = {{kBatchSize, size}};
    return sdk::propose_one(change, situation.expected_gain(change, gain), std::move(reason));
  };
  if (const auto half = step_down(situation, now, loss, trials)) {
    return propose_size(*half, kMinGain,
                        "batches of " + format_count(loss->size) + " were slower than " +
                            format_count(now) + ", so a smaller size may be the fastest");
  }
  Step step = step_up(now, loss);
  if (step.size == 0) return sdk::none(std::move(step.why_not));
  const std::int64_t size = step.size > limit.size ? rounded(limit.size) : step.size;
  const std::int64_t least = overhead.is_measured ? kMinStep : kMinGuessedStep;
  if (size < now + std::max<std::int64_t>(1, now / least)) {
    return sdk::none("batches of " + format_count(now) + " are as large as " + limit.cause +
                     " allows");
  }
  const double gain = predicted_gain(overhead, now, size);
  // The first jump is made whatever is predicted: no model knows how well threads share small batches.
  if (overhead.is_measured && gain < kMinGain) {
    return sdk::none("the time per sample hardly falls with the batch size: " + format_count(size) +
                     " samples would give " + format_gain(gain));
  }
  return propose_size(size, gain, reason_of(situation, overhead, now, size, memory));
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("batch_size", "1.2",
                 "Grows the batch while the time per sample falls and memory suffices.",
                 autotuned::plugins::propose);
