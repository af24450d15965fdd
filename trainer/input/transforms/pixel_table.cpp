// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/pixel_table.hpp"

#include <array>
#include <cassert>
#include <cmath>

#include "trainer/input/transforms/point_wise.hpp"

#if defined(__x86_64__) && !defined(AUTOTUNED_PLAIN_CODE)
#define AUTOTUNED_VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))
#include <immintrin.h>
#endif

namespace autotuned::input {
namespace {

constexpr std::size_t kBytes = 256;

#if defined(AUTOTUNED_VBMI)
constexpr std::size_t kVectorBytes = 64;
// The forms of instructions with a mask, since GCC 12 warns of the others in its own header.
constexpr __mmask16 kAll = 0xffff;
// Fewer bytes do not repay taking the table apart.
constexpr std::size_t kMinForVectors = 512;

bool has_vbmi() {
  static const bool has =
      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vbmi") != 0;
  return has;
}

// The table as four tables of bytes, one for each byte of its floats. 256 bytes are four registers, and one instruction
// looks up 64 bytes in the first or the last 128. Converts as many of `count` bytes as fill whole registers, and
// returns their number.
AUTOTUNED_VBMI std::size_t convert_vectors(const float* values, const std::uint8_t* from,
                                           std::size_t count, float* out) {
  alignas(kVectorBytes) std::array<std::array<std::uint8_t, kBytes>, 4> planes;
  for (std::size_t i = 0; i < kBytes; i += 16) {
    const __m512i floats = _mm512_loadu_si512(values + i);
    for (std::size_t plane = 0; plane < 4; ++plane) {
      const __m128i bits = _mm_cvtsi32_si128(static_cast<int>(8 * plane));
      _mm_store_si128(reinterpret_cast<__m128i*>(planes[plane].data() + i),
                      _mm512_maskz_cvtepi32_epi8(kAll, _mm512_maskz_srl_epi32(kAll, floats, bits)));
    }
  }
  __m512i tables[4][4];
  for (std::size_t plane = 0; plane < 4; ++plane) {
    for (std::size_t part = 0; part < 4; ++part)
      tables[plane][part] = _mm512_load_si512(planes[plane].data() + part * kVectorBytes);
  }
  // Bytes of floats are interleaved within the quarters of a register. For the floats to come out in order, the four
  // bytes of each quarter's k-th turn are taken from the k-th quarter.
  const __m512i turned = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  std::size_t i = 0;
  for (; i + kVectorBytes <= count; i += kVectorBytes) {
    const __m512i bytes =
        _mm512_maskz_permutexvar_epi32(kAll, turned, _mm512_loadu_si512(from + i));
    const __mmask64 is_high = _mm512_movepi8_mask(bytes);
    __m512i found[4];
    for (std::size_t plane = 0; plane < 4; ++plane) {
      const auto& table = tables[plane];
      found[plane] =
          _mm512_mask_blend_epi8(is_high, _mm512_permutex2var_epi8(table[0], bytes, table[1]),
                                 _mm512_permutex2var_epi8(table[2], bytes, table[3]));
    }
    const __m512i low_first = _mm512_unpacklo_epi8(found[0], found[1]);
    const __m512i low_last = _mm512_unpackhi_epi8(found[0], found[1]);
    const __m512i high_first = _mm512_unpacklo_epi8(found[2], found[3]);
    const __m512i high_last = _mm512_unpackhi_epi8(found[2], found[3]);
    _mm512_storeu_si512(out + i, _mm512_unpacklo_epi16(low_first, high_first));
    _mm512_storeu_si512(out + i + 16, _mm512_unpackhi_epi16(low_first, high_first));
    _mm512_storeu_si512(out + i + 32, _mm512_unpacklo_epi16(low_last, high_last));
    _mm512_storeu_si512(out + i + 48, _mm512_unpackhi_epi16(low_last, high_last));
  }
  return i;
}
#endif

}  // namespace

Result<PixelTable> make_pixel_table(std::span<const Transform> transforms, int channels) {
  assert(channels >= 1);
  PixelTable table{channels, std::vector<float>(kBytes * static_cast<std::size_t>(channels))};
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    table.values[i] = static_cast<float>(i % kBytes);
  }
  for (const Transform& transform : transforms) {
    const auto operation = PointOperation::create(transform, channels);
    if (!operation) return tl::unexpected(operation.error());
    for (int c = 0; c < channels; ++c) {
      operation->apply(table.values.data() + kBytes * static_cast<std::size_t>(c), kBytes, c);
    }
  }
  for (const float value : table.values) {
    if (!std::isfinite(value)) {
      return fail(ErrorKind::invalid, "the transforms turn a byte value into an infinite number",
                  "input", "use smaller factors, or a larger `std`");
    }
  }
  return table;
}

void convert_channel(const PixelTable& table, int channel, std::span<const std::uint8_t> bytes,
                     float* out) {
  const float* const values = table.channel(channel).data();
  const std::uint8_t* const from = bytes.data();
  std::size_t i = 0;
#if defined(AUTOTUNED_VBMI)
  if (bytes.size() >= kMinForVectors && has_vbmi()) {
    i = convert_vectors(values, from, bytes.size(), out);
  }
#endif
  // Converts four at a time, because the compiler may not move loads over stores that could change the table: twice as
  // fast as the plain loop.
  for (; i + 4 <= bytes.size(); i += 4) {
    const float v0 = values[from[i]];
    const float v1 = values[from[i + 1]];
    const float v2 = values[from[i + 2]];
    const float v3 = values[from[i + 3]];
    out[i] = v0;
    out[i + 1] = v1;
    out[i + 2] = v2;
    out[i + 3] = v3;
  }
  for (; i < bytes.size(); ++i)
    out[i] = values[from[i]];
}

void convert_sample(const PixelTable& table, std::span<const std::uint8_t> bytes, float* out) {
  const std::size_t count = bytes.size() / static_cast<std::size_t>(table.channels);
  for (int c = 0; c < table.channels; ++c) {
    const std::size_t at = static_cast<std::size_t>(c) * count;
    convert_channel(table, c, bytes.subspan(at, count), out + at);
  }
}

}  // namespace autotuned::input
