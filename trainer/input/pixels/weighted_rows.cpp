// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/pixels/weighted_rows.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "trainer/input/pixels/vector_code.hpp"

#if defined(__x86_64__) && !defined(AUTOTUNED_PLAIN_CODE)
#define AUTOTUNED_AVX2 __attribute__((target("avx2")))
#include <immintrin.h>
#endif

namespace autotuned::input {
namespace {

using Pair = RowWeights::Pair;

constexpr unsigned kHalfBits = kWeightBits / 2;
constexpr std::uint32_t kLowMask = (std::uint32_t{1} << kHalfBits) - 1;
constexpr std::uint32_t kRounding = std::uint32_t{1} << (kWeightBits - 1);
// The lower halves of more weights than this may not add up in 32 bits.
constexpr std::size_t kMaxQuickWeights = 2000;

// The k-th weight of a pixel.
std::uint32_t weight_of(const Pair* pairs, std::size_t k) {
  const unsigned shift = k % 2 == 0 ? 0 : 16;
  const Pair& pair = pairs[k / 2];
  return (pair.high >> shift & 0xffffU) << kHalfBits | (pair.low >> shift & 0xffffU);
}

AUTOTUNED_VECTOR_CODE void add_row(const std::uint8_t* __restrict row, std::size_t count,
                                   std::uint32_t weight, std::uint32_t* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i)
    sums[i] += row[i] * weight;
}

void weigh_plain(const std::uint8_t* rows, std::size_t width, const Pair* pairs, std::size_t count,
                 std::uint8_t* to) {
  constexpr std::size_t kAtATime = 256;
  std::array<std::uint32_t, kAtATime> sums;
  for (std::size_t begin = 0; begin < width; begin += kAtATime) {
    const std::size_t columns = std::min(kAtATime, width - begin);
    std::fill_n(sums.begin(), columns, kRounding);
    for (std::size_t k = 0; k < count; ++k)
      add_row(rows + k * width + begin, columns, weight_of(pairs, k), sums.data());
    for (std::size_t i = 0; i < columns; ++i)
      to[begin + i] = static_cast<std::uint8_t>(sums[i] >> kWeightBits);
  }
}

// The same for any number of weights, whose sum may go beyond a byte.
void weigh_many(const std::uint8_t* rows, std::size_t width, const Pair* pairs, std::size_t count,
                std::uint8_t* to) {
  for (std::size_t i = 0; i < width; ++i) {
    std::uint64_t sum = kRounding;
    for (std::size_t k = 0; k < count; ++k)
      sum += std::uint64_t{rows[k * width + i]} * weight_of(pairs, k);
    to[i] = static_cast<std::uint8_t>(std::min<std::uint64_t>(sum >> kWeightBits, 255));
  }
}

#if defined(AUTOTUNED_AVX2)
constexpr std::size_t kRowVectorBytes = 32;

// 32 columns: sums of upper and of lower halves, in the order in which unpacking and packing work.
constexpr std::size_t kParts = 4;
struct Sums {
  __m256i high[kParts];
  __m256i low[kParts];
};

// Two rows times two weights.
template <bool kIsFirst>
AUTOTUNED_AVX2 inline void add_pair(__m256i first, __m256i second, const Pair& pair, Sums& sums) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i high = _mm256_set1_epi32(static_cast<int>(pair.high));
  const __m256i low = _mm256_set1_epi32(static_cast<int>(pair.low));
  const __m256i lower = _mm256_unpacklo_epi8(first, second);
  const __m256i upper = _mm256_unpackhi_epi8(first, second);
  const __m256i bytes[kParts] = {
      _mm256_unpacklo_epi8(lower, zero), _mm256_unpackhi_epi8(lower, zero),
      _mm256_unpacklo_epi8(upper, zero), _mm256_unpackhi_epi8(upper, zero)};
  for (std::size_t i = 0; i < kParts; ++i) {
    const __m256i by_high = _mm256_madd_epi16(bytes[i], high);
    const __m256i by_low = _mm256_madd_epi16(bytes[i], low);
    sums.high[i] = kIsFirst ? by_high : _mm256_add_epi32(sums.high[i], by_high);
    sums.low[i] = kIsFirst ? by_low : _mm256_add_epi32(sums.low[i], by_low);
  }
}

AUTOTUNED_AVX2 inline __m256i load(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// REQUIRES: at least kRowVectorBytes columns.
AUTOTUNED_AVX2 void weigh_avx2(const std::uint8_t* rows, std::size_t width, const Pair* pairs,
                               std::size_t count, std::uint8_t* to) {
  const __m256i rounding = _mm256_set1_epi32(kRounding);
  for (std::size_t at = 0;;) {
    const std::uint8_t* const from = rows + at;
    Sums sums;
    add_pair<true>(load(from), count > 1 ? load(from + width) : _mm256_setzero_si256(), pairs[0],
                   sums);
    std::size_t k = 2;
    for (; k + 2 <= count; k += 2)
      add_pair<false>(load(from + k * width), load(from + (k + 1) * width), pairs[k / 2], sums);
    if (k < count)
      add_pair<false>(load(from + k * width), _mm256_setzero_si256(), pairs[k / 2], sums);
    __m256i top[kParts];
    for (std::size_t i = 0; i < kParts; ++i) {
      const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(sums.high[i], kHalfBits),
                                           _mm256_add_epi32(sums.low[i], rounding));
      top[i] = _mm256_srli_epi32(sum, kWeightBits);
    }
    const __m256i result =
        _mm256_packus_epi16(_mm256_packs_epi32(top[0], top[1]), _mm256_packs_epi32(top[2], top[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), result);
    if (at + kRowVectorBytes == width) return;
    // The last ones once more with those before them.
    at = std::min(at + kRowVectorBytes, width - kRowVectorBytes);
  }
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#endif

constexpr std::size_t kBlock = 16;
using Row = std::uint8_t __attribute__((vector_size(kBlock)));
struct Block {
  Row rows[kBlock];
};

// Interleaves the rows of the upper half with those of the lower half, byte by byte. Done four times, this transposes.
void interleave(const Block& from, Block& to) {
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    const Row a = from.rows[i];
    const Row b = from.rows[i + kBlock / 2];
    to.rows[2 * i] =
        __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    to.rows[2 * i + 1] =
        __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
}

}  // namespace

void RowWeights::reset(std::size_t pixels, std::size_t most_weights) {
  pixels_.assign(pixels, {});
  pairs_of_pixel_ = (most_weights + 1) / 2;
  pairs_.assign(pixels * pairs_of_pixel_, {});
}

void RowWeights::set(std::size_t pixel, std::size_t first, std::span<const std::uint32_t> weights) {
  assert(!weights.empty() && (weights.size() + 1) / 2 <= pairs_of_pixel_);
  pixels_[pixel] = {first, weights.size()};
  Pair* const pairs = pairs_.data() + pixel * pairs_of_pixel_;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const unsigned shift = k % 2 == 0 ? 0 : 16;
    pairs[k / 2].high |= (weights[k] >> kHalfBits) << shift;
    pairs[k / 2].low |= (weights[k] & kLowMask) << shift;
  }
}

void RowWeights::weigh(std::size_t pixel, const std::uint8_t* rows, std::size_t width,
                       std::uint8_t* out) const {
  const auto [first, count] = pixels_[pixel];
  const Pair* const pairs = pairs_.data() + pixel * pairs_of_pixel_;
  rows += first * width;
  if (count > kMaxQuickWeights) return weigh_many(rows, width, pairs, count, out);
#if defined(AUTOTUNED_AVX2)
  if (width >= kRowVectorBytes && has_avx2()) return weigh_avx2(rows, width, pairs, count, out);
#endif
  weigh_plain(rows, width, pairs, count, out);
}

void transpose(const std::uint8_t* from, std::size_t rows, std::size_t width, std::uint8_t* to) {
  const std::size_t whole_rows = rows / kBlock * kBlock;
  const std::size_t whole_width = width / kBlock * kBlock;
  for (std::size_t y = 0; y < whole_rows; y += kBlock) {
    for (std::size_t x = 0; x < whole_width; x += kBlock) {
      Block block;
      Block other;
      for (std::size_t i = 0; i < kBlock; ++i)
        std::memcpy(&block.rows[i], from + (y + i) * width + x, kBlock);
      interleave(block, other);
      interleave(other, block);
      interleave(block, other);
      interleave(other, block);
      for (std::size_t i = 0; i < kBlock; ++i)
        std::memcpy(to + (x + i) * rows + y, &block.rows[i], kBlock);
    }
  }
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = y < whole_rows ? whole_width : 0; x < width; ++x)
      to[x * rows + y] = from[y * width + x];
  }
}

}  // namespace autotuned::input
