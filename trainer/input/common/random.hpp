// SPDX-License-Identifier: Apache-2.0
// Random numbers by counter: any number of a stream can be computed without those before it.
#pragma once

#include <cstdint>

namespace autotuned::input {

inline constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15U;

// The output function of SplitMix64 (Steele, Lea, Flood 2014): a bijection that mixes every bit.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

// 64 random bits as a number in [0, bound); the bias is below bound / 2^64.
[[nodiscard]] constexpr std::uint64_t below(std::uint64_t random, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(random) * bound) >> 64U);
}

// The seed for the draws of one rank. The first rank has the training's own seed.
[[nodiscard]] constexpr std::uint64_t seed_of_rank(std::uint64_t seed, std::int64_t rank) {
  return rank == 0 ? seed : mix64(seed ^ mix64(static_cast<std::uint64_t>(rank) * kGoldenGamma));
}

// SplitMix64 with random access. Streams of different (seed, number) start at unrelated states.
class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t seed, std::uint64_t number)
      : number_(number), state_(mix64(mix64(seed + kGoldenGamma) + number * kGoldenGamma)) {}

  // The stream of another seed with the same number.
  [[nodiscard]] constexpr RandomStream of_seed(std::uint64_t seed) const { return {seed, number_}; }

  [[nodiscard]] constexpr std::uint64_t at(std::uint64_t index) const {
    return mix64(state_ + (index + 1) * kGoldenGamma);
  }

 private:
  std::uint64_t number_;
  std::uint64_t state_;
};

}  // namespace autotuned::input
