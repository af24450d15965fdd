// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/forward_threads.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace autotuned::analysis {
namespace {

// The most sequence numbers that are looked up for each of autograd's numbers, and the most threads: a hostile trace may have many of both.
constexpr std::size_t kSamples = 16;
constexpr std::size_t kMaxThreads = 256;

}  // namespace

std::unordered_map<std::uint32_t, std::uint32_t> forward_threads(const traces::Events& events) {
  std::unordered_set<CountedOperator, CountedOperatorHash> counted;
  std::unordered_map<std::uint32_t, std::int64_t> first_start;
  std::map<std::uint32_t, std::vector<std::int64_t>>
      named;  // sequence numbers by autograd's number
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.sequence[row] == traces::kNoId) continue;
    if (events.is_backward[row]) {
      named[events.forward_thread[row]].push_back(events.sequence[row]);
      continue;
    }
    counted.insert({events.thread[row], events.sequence[row]});
    const auto [first, is_new] = first_start.try_emplace(events.thread[row], events.start_ns[row]);
    if (!is_new) first->second = std::min(first->second, events.start_ns[row]);
  }
  std::vector<std::pair<std::int64_t, std::uint32_t>> free;  // threads by start
  for (const auto& [thread, start_ns] : first_start)
    free.emplace_back(start_ns, thread);
  std::ranges::sort(free);

  std::unordered_map<std::uint32_t, std::uint32_t> threads;
  for (const auto& [number, sequences] : named) {
    const std::size_t stride = (sequences.size() + kSamples - 1) / kSamples;
    auto best = free.end();
    std::size_t most = 0;
    const auto end = free.begin() + static_cast<std::ptrdiff_t>(std::min(free.size(), kMaxThreads));
    for (auto thread = free.begin(); thread != end; ++thread) {
      std::size_t hits = 0;
      for (std::size_t i = 0; i < sequences.size(); i += stride) {
        if (counted.contains({thread->second, sequences[i]})) ++hits;
      }
      if (hits <= most) continue;
      most = hits;
      best = thread;
    }
    if (best == free.end()) continue;
    threads[number] = best->second;
    free.erase(best);
  }
  return threads;
}

}  // namespace autotuned::analysis
