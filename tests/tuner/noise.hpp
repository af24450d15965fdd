// SPDX-License-Identifier: Apache-2.0
// Kinds of timing noise: the log-rate of one unchanged configuration, block after block.
#pragma once

#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tuner/comparison.hpp"

namespace autotuned::tuner {

// The most events that a rate of `rate` explains at one in ten thousand.
inline int most_events(int trials, double rate) {
  return static_cast<int>(boost::math::quantile(boost::math::binomial(trials, rate), 0.9999));
}

using Noise = std::function<double()>;

struct NoiseKind {
  std::string name;
  std::function<Noise(std::uint64_t seed)> make;
};

inline Noise normal_noise(std::uint64_t seed, double deviation) {
  return [engine = std::mt19937_64(seed), normal = std::normal_distribution<double>(
                                              0.0, deviation)]() mutable { return normal(engine); };
}

inline std::vector<NoiseKind> noise_kinds() {
  const auto heavy = [](std::uint64_t seed) -> Noise {
    return
        [engine = std::mt19937_64(seed), t = std::student_t_distribution<double>(1.5)]() mutable {
          return std::max(-5.0, std::min(5.0, 0.04 * t(engine)));
        };
  };
  const auto correlated = [](std::uint64_t seed) -> Noise {
    return [step = normal_noise(seed, 0.05), level = 0.0]() mutable {
      return level = 0.95 * level + step();
    };
  };
  const auto periodic = [](std::uint64_t seed) -> Noise {
    return [step = normal_noise(seed, 0.005), block = seed % 7]() mutable {
      // A period of two pairs: what a fixed A B B A order aliases with.
      return 0.3 * ((block++ / 2) % 2 == 0 ? 1.0 : -1.0) + step();
    };
  };
  const auto drifting = [](std::uint64_t seed) -> Noise {
    return [step = normal_noise(seed, 0.01), level = 0.0]() mutable {
      return (level += 0.02) + step();
    };
  };
  const auto bursts = [](std::uint64_t seed) -> Noise {
    return [engine = std::mt19937_64(seed), step = normal_noise(seed + 1, 0.03),
            is_slow = false]() mutable {
      if (std::uniform_real_distribution<double>(0.0, 1.0)(engine) < 0.1) is_slow = !is_slow;
      return (is_slow ? -0.7 + 8.0 * step() : step());
    };
  };
  return {{"normal", [](std::uint64_t seed) { return normal_noise(seed, 0.05); }},
          {"heavy_tails", heavy},
          {"autocorrelated", correlated},
          {"periodic", periodic},
          {"drifting", drifting},
          {"bursts", bursts}};
}

// A whole comparison in `noise` of a candidate that is exp(log_gain) times as fast. Stops at a decision
// unless `goes_on`.
inline Comparison compare_in(const Noise& noise, std::uint64_t seed, double log_gain, int pairs,
                             ComparisonRules rules = {}, bool goes_on = false) {
  std::mt19937_64 coins(seed * 2 + 1);
  Comparison comparison(rules);
  for (int i = 0; i < pairs; ++i) {
    const double first = noise();
    const double second = noise();
    const bool is_candidate_first = (coins() & 1U) != 0;
    const double difference = is_candidate_first ? first - second : second - first;
    comparison.add(difference + log_gain, (first + second + log_gain) / 2.0);
    if (!goes_on && comparison.decision() != Decision::undecided) break;
  }
  return comparison;
}

}  // namespace autotuned::tuner
