// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/fill_kept.hpp"

#include <atomic>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace autotuned::input {

void fill_kept(const SampleWriter& writer, std::span<const std::uint32_t> order, std::int64_t first,
               int threads, std::chrono::nanoseconds most,
               const std::function<bool()>& is_cancelled) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + most;
  const std::int64_t samples = std::ssize(order);
  std::atomic<std::int64_t> taken = 0;
  std::atomic<bool> is_over = false;
  const auto fill = [&](SampleWriter::Scratch scratch, bool may_ask) {
    for (std::int64_t next = 0; !is_over && (next = taken.fetch_add(1)) < samples;) {
      const auto at = static_cast<std::size_t>((first + next) % samples);
      (void)writer.keep(order[at], scratch);
      if (Clock::now() > deadline || (may_ask && is_cancelled())) is_over = true;
    }
  };
  std::vector<std::jthread> others;
  try {
    for (int i = 1; i < threads; ++i)
      others.emplace_back(fill, writer.make_scratch(), false);
  } catch (const std::exception&) {
    // Fewer do it, too.
  }
  fill(writer.make_scratch(), true);
}

}  // namespace autotuned::input
