// SPDX-License-Identifier: Apache-2.0
#include "tuner/baseline.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/statistics.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;

constexpr int kBaselineBlocks = 5;
constexpr nanoseconds kSlowBlock = std::chrono::seconds(1);

tl::unexpected<Error> with_remedy(Error error) {
  if (error.kind != ErrorKind::cancelled && !error.is_disturbance && error.remedy.empty()) {
    error.remedy = "the starting configuration must run before anything can be tuned";
  }
  return tl::unexpected<Error>(std::move(error));
}

// A disturbance says nothing about the job, such as a batch system that suspends it for a while: the block is measured once
// more. `begun`: when the block that counts began.
Result<Block> undisturbed_block(const Configuration& starting, TrainingBackend& backend,
                                const Clock& clock, nanoseconds& begun) {
  begun = clock.now();
  auto block = backend.run_block(starting, {});
  if (block || !block.error().is_disturbance) return block;
  begun = clock.now();
  return backend.run_block(starting, {});
}

}  // namespace

Result<Baseline> measure_baseline(const SessionInput& input, TrainingBackend& backend,
                                  Ledger& ledger, const Clock& clock) {
  // The first block is dropped: it includes starting threads, filling caches and allocating memory.
  nanoseconds begun{0};
  const auto warm = undisturbed_block(input.starting, backend, clock, begun);
  if (!warm) return with_remedy(warm.error());
  Baseline baseline;
  std::vector<double> rates;
  std::vector<double> durations_ns;
  nanoseconds taken{0};
  for (int i = 0; i < kBaselineBlocks; ++i) {
    const auto block = undisturbed_block(input.starting, backend, clock, begun);
    if (!block) return with_remedy(block.error());
    taken += clock.now() - begun;
    if (!(block->samples_per_second() > 0.0)) {
      return fail(ErrorKind::internal, "a block of the starting configuration has no rate");
    }
    rates.push_back(block->samples_per_second());
    durations_ns.push_back(static_cast<double>(block->duration_ns));
    baseline.has_slow_blocks =
        median(durations_ns) > static_cast<double>(nanoseconds(kSlowBlock).count());
    if (baseline.has_slow_blocks && i >= 1) break;
  }
  baseline.pair_time =
      std::max<nanoseconds>(nanoseconds(1), 2 * taken / static_cast<std::int64_t>(rates.size()));
  baseline.samples_per_second = median(std::move(rates));
  if (auto stored = ledger.baseline(input.starting, baseline.samples_per_second); !stored) {
    return forward_error(stored);
  }
  return baseline;
}

}  // namespace autotuned::tuner
