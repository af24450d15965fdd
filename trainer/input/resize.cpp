// SPDX-License-Identifier: Apache-2.0
// resize: bilinear with antialiasing, byte for byte what PIL's Image.resize gives: two passes over a
// triangle filter as wide as the reduction, weights of 22 binary digits, rounded after each pass. Columns
// come first, as in every PIL before Pillow 13, which begins with the rows where these become fewer
// and the columns more.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "trainer/input/transform_types.hpp"
#include "trainer/input/vector_code.hpp"

namespace autotuned::input {
namespace {

constexpr int kWeightBits = 22;
// The sum of bytes times weights has 8 more digits. Two more for each weight, and the result is the sum's top
// byte, without a look at what is beyond it.
constexpr int kExtraBits = 2;
constexpr std::uint32_t kHalf = std::uint32_t{1} << (kWeightBits + kExtraBits - 1);
// Of weights that are rounded up the sum may be larger than 1: with so many it still fits.
constexpr std::size_t kMostQuickTaps = 8000;
// Rows that are worked on together fit into the nearest cache.
constexpr std::size_t kTileBytes = std::size_t{16} << 10U;

// Which pixels of one axis make a pixel of the result, and by how much.
class Axis {
 public:
  // Does nothing when it is for these sizes already.
  void prepare(int from, int to) {
    if (from == from_ && to == to_) return;
    from_ = from;
    to_ = to;
    const double scale = static_cast<double>(from) / to;
    const double reduction = std::max(scale, 1.0);
    const double support = reduction;  // the triangle reaches 1 to each side, stretched
    most_ = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
    taps_.resize(static_cast<std::size_t>(to));
    weights_.resize(taps_.size() * most_);
    exact_.resize(most_);
    for (int i = 0; i < to; ++i) {
      const double center = (i + 0.5) * scale;
      const int first = std::max(static_cast<int>(center - support + 0.5), 0);
      const int last = std::min(static_cast<int>(center + support + 0.5), from);
      const auto count = static_cast<std::size_t>(last - first);
      double sum = 0;
      for (std::size_t k = 0; k < count; ++k) {
        const double at = (static_cast<double>(k) + first - center + 0.5) * (1.0 / reduction);
        exact_[k] = std::max(1.0 - std::abs(at), 0.0);
        sum += exact_[k];
      }
      std::uint32_t* const weights = weights_.data() + static_cast<std::size_t>(i) * most_;
      for (std::size_t k = 0; k < count; ++k) {
        const double exact = 0.5 + exact_[k] / sum * (1 << kWeightBits);
        weights[k] = static_cast<std::uint32_t>(exact) << kExtraBits;
      }
      // Where a picture grows, the outermost weighs nothing: two rows are less work than three.
      std::size_t begin = 0;
      std::size_t end = count;
      while (end > 1 && weights[end - 1] == 0)
        --end;
      while (begin + 1 < end && weights[begin] == 0)
        ++begin;
      std::copy(weights + begin, weights + end, weights);
      taps_[static_cast<std::size_t>(i)] = {static_cast<std::size_t>(first) + begin, end - begin};
    }
  }

  struct Taps {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  [[nodiscard]] std::size_t size() const { return taps_.size(); }
  [[nodiscard]] Taps taps(std::size_t i) const { return taps_[i]; }
  [[nodiscard]] const std::uint32_t* weights(std::size_t i) const {
    return weights_.data() + i * most_;
  }

 private:
  int from_ = 0;
  int to_ = 0;
  std::size_t most_ = 0;  // weights of a pixel
  std::vector<Taps> taps_;
  std::vector<std::uint32_t> weights_;
  std::vector<double> exact_;  // of one pixel
};

struct ResizeMemory final : StageMemory {
  Axis columns;
  Axis rows;
  std::vector<std::uint8_t> narrowed;  // all channels after the first pass
  std::vector<std::uint8_t> tile;      // some rows on their side, before and after
  std::vector<std::uint8_t> narrow_tile;
  std::vector<std::uint32_t> sums;
};

std::uint8_t top_byte(std::uint32_t sum) {
  return static_cast<std::uint8_t>(sum >> (kWeightBits + kExtraBits));
}

// to[i] is the sum over k of weights[k] times the i-th byte of row k, rounded. Rows lie `stride` apart.
// `sums` has room for `count`, where there are more than two weights.
AUTOTUNED_VECTOR_CODE void weigh(const std::uint8_t* __restrict from, std::size_t stride,
                                 const std::uint32_t* __restrict weights, std::size_t taps,
                                 std::size_t count, std::uint32_t* __restrict sums,
                                 std::uint8_t* __restrict to) {
  if (taps == 1) {
    const std::uint32_t w0 = weights[0];
    for (std::size_t i = 0; i < count; ++i)
      to[i] = top_byte(kHalf + from[i] * w0);
    return;
  }
  if (taps == 2) {
    const std::uint8_t* __restrict const second = from + stride;
    const std::uint32_t w0 = weights[0];
    const std::uint32_t w1 = weights[1];
    for (std::size_t i = 0; i < count; ++i)
      to[i] = top_byte(kHalf + from[i] * w0 + second[i] * w1);
    return;
  }
  std::fill_n(sums, count, kHalf);
  std::size_t k = 0;
  for (; k + 2 <= taps; k += 2) {
    const std::uint8_t* __restrict const a = from + k * stride;
    const std::uint8_t* __restrict const b = a + stride;
    const std::uint32_t w0 = weights[k];
    const std::uint32_t w1 = weights[k + 1];
    for (std::size_t i = 0; i < count; ++i)
      sums[i] += a[i] * w0 + b[i] * w1;
  }
  if (k < taps) {
    const std::uint8_t* __restrict const a = from + k * stride;
    const std::uint32_t w0 = weights[k];
    for (std::size_t i = 0; i < count; ++i)
      sums[i] += a[i] * w0;
  }
  for (std::size_t i = 0; i < count; ++i)
    to[i] = top_byte(sums[i]);
}

// The same for any number of weights.
void weigh_many(const std::uint8_t* from, std::size_t stride, const std::uint32_t* weights,
                std::size_t taps, std::size_t count, std::uint8_t* to) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t sum = kHalf;
    for (std::size_t k = 0; k < taps; ++k)
      sum += std::uint64_t{from[k * stride + i]} * weights[k];
    to[i] =
        static_cast<std::uint8_t>(std::min<std::uint64_t>(sum >> (kWeightBits + kExtraBits), 255));
  }
}

constexpr std::size_t kBlock = 8;
using Block = std::array<std::uint64_t, kBlock>;  // eight rows of eight bytes
static_assert(std::endian::native == std::endian::little);

// Exchanges the squares of `Side` bytes beside the diagonal of every square of twice that.
template <std::size_t Side>
void exchange(Block& block) {
  constexpr unsigned kShift = 8 * Side;
  constexpr std::uint64_t kMask = Side == 4   ? 0x00000000ffffffffU
                                  : Side == 2 ? 0x0000ffff0000ffffU
                                              : 0x00ff00ff00ff00ffU;
  for (std::size_t row = 0; row < kBlock; ++row) {
    if ((row & Side) != 0) continue;
    const std::uint64_t other = ((block[row] >> kShift) ^ block[row + Side]) & kMask;
    block[row] ^= other << kShift;
    block[row + Side] ^= other;
  }
}

// Rows and columns exchanged: to[x * rows + y] = from[y * width + x].
void transpose(const std::uint8_t* from, std::size_t rows, std::size_t width, std::uint8_t* to) {
  const std::size_t whole_rows = rows / kBlock * kBlock;
  const std::size_t whole_width = width / kBlock * kBlock;
  for (std::size_t y = 0; y < whole_rows; y += kBlock) {
    for (std::size_t x = 0; x < whole_width; x += kBlock) {
      Block block;
      for (std::size_t i = 0; i < kBlock; ++i)
        std::memcpy(&block[i], from + (y + i) * width + x, kBlock);
      exchange<4>(block);
      exchange<2>(block);
      exchange<1>(block);
      for (std::size_t i = 0; i < kBlock; ++i)
        std::memcpy(to + (x + i) * rows + y, &block[i], kBlock);
    }
  }
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = y < whole_rows ? whole_width : 0; x < width; ++x)
      to[x * rows + y] = from[y * width + x];
  }
}

void weigh(const Axis& axis, std::size_t at, const std::uint8_t* from, std::size_t width,
           std::vector<std::uint32_t>& sums, std::uint8_t* to) {
  const Axis::Taps taps = axis.taps(at);
  from += taps.first * width;
  if (taps.count > kMostQuickTaps) {
    weigh_many(from, width, axis.weights(at), taps.count, width, to);
  } else {
    weigh(from, width, axis.weights(at), taps.count, width, sums.data(), to);
  }
}

// Each of `height` rows of `width` pixels becomes one of axis.size() pixels. On their side, so that the
// rows of a few are what is worked on at once.
void resize_columns(const Axis& axis, const std::uint8_t* from, std::size_t height,
                    std::size_t width, ResizeMemory& memory, std::uint8_t* to) {
  const std::size_t most = std::clamp<std::size_t>(kTileBytes / width, 16, 128);
  memory.sums.resize(std::max(memory.sums.size(), most));
  memory.tile.resize(std::max(memory.tile.size(), most * width));
  memory.narrow_tile.resize(std::max(memory.narrow_tile.size(), most * axis.size()));
  for (std::size_t row = 0; row < height; row += most) {
    const std::size_t rows = std::min(most, height - row);
    transpose(from + row * width, rows, width, memory.tile.data());
    for (std::size_t x = 0; x < axis.size(); ++x) {
      weigh(axis, x, memory.tile.data(), rows, memory.sums, memory.narrow_tile.data() + x * rows);
    }
    transpose(memory.narrow_tile.data(), axis.size(), rows, to + row * axis.size());
  }
}

// Rows of `width` pixels become axis.size() such rows.
void resize_rows(const Axis& axis, const std::uint8_t* from, std::size_t width,
                 ResizeMemory& memory, std::uint8_t* to) {
  memory.sums.resize(std::max(memory.sums.size(), width));
  for (std::size_t y = 0; y < axis.size(); ++y, to += width)
    weigh(axis, y, from, width, memory.sums, to);
}

class ResizeStage final : public Stage {
 public:
  ResizeStage(Size size, int channels) : shape_{channels, size.height, size.width} {}

  SampleType output() const override { return type_of(Element::uint8, shape_); }
  std::unique_ptr<StageMemory> make_memory() const override {
    return std::make_unique<ResizeMemory>();
  }

  Result<Sample> apply(const Sample& sample, const RandomStream& /*draws*/, StageMemory* memory,
                       SampleRoom& room) const override {
    auto& kept = *static_cast<ResizeMemory*>(memory);
    const auto from_height = static_cast<std::size_t>(sample.shape.height);
    const auto from_width = static_cast<std::size_t>(sample.shape.width);
    const auto height = static_cast<std::size_t>(shape_.height);
    const auto width = static_cast<std::size_t>(shape_.width);
    std::uint8_t* to = nullptr;
    const Sample result = room.take(Element::uint8, shape_, to);
    kept.columns.prepare(sample.shape.width, shape_.width);
    kept.rows.prepare(sample.shape.height, shape_.height);
    // Rows of all channels lie one after the other. A pass that changes no size is left out: a weight of
    // 1 changes no byte.
    const auto channels = static_cast<std::size_t>(shape_.channels);
    const std::uint8_t* narrowed = sample.bytes.data();
    if (width != from_width) {
      kept.narrowed.resize(std::max(kept.narrowed.size(), channels * from_height * width));
      std::uint8_t* const out = height == from_height ? to : kept.narrowed.data();
      resize_columns(kept.columns, narrowed, channels * from_height, from_width, kept, out);
      narrowed = out;
    }
    if (height == from_height) {
      if (width == from_width) std::memcpy(to, narrowed, channels * height * width);
      return result;
    }
    for (std::size_t channel = 0; channel < channels; ++channel) {
      resize_rows(kept.rows, narrowed + channel * from_height * width, width, kept,
                  to + channel * height * width);
    }
    return result;
  }

 private:
  SampleShape shape_;
};

}  // namespace

MadeStage make_resize(const Transform& transform, const SampleType& input) {
  const auto size = size_parameter(transform);
  if (!size) return tl::unexpected(size.error());
  return std::make_unique<ResizeStage>(*size, input.channels);
}

}  // namespace autotuned::input
