// SPDX-License-Identifier: Apache-2.0
// Power loss, long form: the history's writer loses its power at random points, on a disk that drops or
// tears any write that was not synced. After each, the history must open, be whole, and hold what it held
// after the last acknowledged fact, or after the one that was being stored.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <random>

#include "tests/storage/power_workload.hpp"

int main(int argc, char** argv) {
  using namespace autotuned::storage;
  std::uint64_t points = 10'000;
  std::uint64_t seed = std::random_device()();
  CLI::App app{"Cuts the power at random points"};
  app.add_option("--points", points)->capture_default_str();
  app.add_option("--seed", seed, "Random unless given");
  CLI11_PARSE(app, argc, argv);

  // Mostly without the large fact, which costs the most time and only moves the log once more.
  constexpr int kShort = kLargeFact;
  constexpr int kLong = kMaxFacts;
  const std::uint64_t short_operations = operations_of(kShort);
  const std::uint64_t long_operations = operations_of(kLong);
  std::mt19937_64 random(seed);
  std::uint64_t wrong = 0;
  std::uint64_t in_the_middle = 0;
  std::uint64_t kept_unacknowledged = 0;
  for (std::uint64_t point = 0; point < points; ++point) {
    const bool is_long = point % 8 == 7;
    const int facts = is_long ? kLong : kShort;
    const std::uint64_t operation = 1 + random() % (is_long ? long_operations : short_operations);
    const std::uint64_t coins = random();
    const Cut cut = cut_power_at(facts, operation, coins);
    if (cut.acknowledged > 0 && cut.acknowledged < facts) ++in_the_middle;
    if (cut.found > cut.acknowledged) ++kept_unacknowledged;
    if (cut.is_right()) continue;
    ++wrong;
    std::printf("WRONG: %d facts, operation %llu, coins %llu: %d acknowledged, %d found\n", facts,
                static_cast<unsigned long long>(operation), static_cast<unsigned long long>(coins),
                cut.acknowledged, cut.found);
  }
  std::printf(
      "%llu power losses, seed %llu, among %llu operations: %llu while facts were being stored, "
      "%llu kept a fact that nobody had acknowledged yet, %llu lost or damaged something\n",
      static_cast<unsigned long long>(points), static_cast<unsigned long long>(seed),
      static_cast<unsigned long long>(long_operations),
      static_cast<unsigned long long>(in_the_middle),
      static_cast<unsigned long long>(kept_unacknowledged), static_cast<unsigned long long>(wrong));
  return wrong == 0 && in_the_middle > points / 2 ? 0 : 1;
}
