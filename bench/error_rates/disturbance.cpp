// SPDX-License-Identifier: Apache-2.0
#include "bench/error_rates/disturbance.hpp"

#include <cstdint>
#include <random>

namespace autotuned::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

void disturb(const std::atomic<bool>& is_over, std::chrono::nanoseconds block, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> blocks(2.0, 60.0);
  std::vector<float> data = busy_data();
  const auto some_blocks = [&] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(blocks(engine) * block);
  };
  while (!is_over) {
    std::this_thread::sleep_for(some_blocks());
    static_cast<void>(run_busy_block(data, 20, some_blocks()));
  }
}

}  // namespace

std::vector<float> busy_data() {
  return std::vector<float>(std::size_t{1} << 11U, 1.0F);
}

float busy_step(std::vector<float>& data, int passes) {
  float sum = 0.0F;
  for (int pass = 0; pass < passes; ++pass) {
    for (float& value : data)
      value = value * 0.999F + 0.001F;
    sum += data[static_cast<std::size_t>(pass) % data.size()];
  }
  return sum;
}

double run_busy_block(std::vector<float>& data, int passes, std::chrono::nanoseconds least) {
  thread_local volatile float sink = 0.0F;
  const auto started = SteadyClock::now();
  std::int64_t steps = 0;
  auto now = started;
  do {
    sink = sink + busy_step(data, passes);
    ++steps;
    now = SteadyClock::now();
  } while (now - started < least);
  return static_cast<double>(steps) / std::chrono::duration<double>(now - started).count();
}

Disturbance::Disturbance(int threads, std::chrono::nanoseconds block) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back(
        [this, block, i] { disturb(is_over_, block, 3U + static_cast<unsigned>(i)); });
  }
}

Disturbance::~Disturbance() {
  is_over_ = true;
}

}  // namespace autotuned::bench
