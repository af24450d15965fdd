// SPDX-License-Identifier: Apache-2.0
// resize: bilinear with antialiasing, byte for byte what PIL's Image.resize gives: two passes over a
// triangle filter as wide as the reduction, weights of 22 binary digits, rounded after each pass. Columns
// come first, as in every PIL before Pillow 13, which begins with the rows where these become fewer
// and the columns more.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "trainer/input/transform_types.hpp"

namespace autotuned::input {
namespace {

constexpr int kWeightBits = 22;
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

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
      taps_[static_cast<std::size_t>(i)] = {static_cast<std::size_t>(first), count};
      std::int32_t* const weights = weights_.data() + static_cast<std::size_t>(i) * most_;
      for (std::size_t k = 0; k < count; ++k) {
        weights[k] = static_cast<std::int32_t>(0.5 + exact_[k] / sum * (1 << kWeightBits));
      }
    }
  }

  struct Taps {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  [[nodiscard]] std::size_t size() const { return taps_.size(); }
  [[nodiscard]] Taps taps(std::size_t i) const { return taps_[i]; }
  [[nodiscard]] const std::int32_t* weights(std::size_t i) const {
    return weights_.data() + i * most_;
  }

 private:
  int from_ = 0;
  int to_ = 0;
  std::size_t most_ = 0;  // weights of a pixel
  std::vector<Taps> taps_;
  std::vector<std::int32_t> weights_;
  std::vector<double> exact_;  // of one pixel
};

struct ResizeMemory final : StageMemory {
  Axis columns;
  Axis rows;
  std::vector<std::uint8_t> narrowed;  // one channel after the first pass
  std::vector<std::int32_t> sums;      // of one row of the result
};

// Each of `height` rows of `width` pixels becomes one of axis.size() pixels.
void resize_columns(const Axis& axis, const std::uint8_t* from, std::size_t height,
                    std::size_t width, std::uint8_t* to) {
  for (std::size_t row = 0; row < height; ++row, from += width) {
    for (std::size_t x = 0; x < axis.size(); ++x) {
      const Axis::Taps taps = axis.taps(x);
      const std::int32_t* const weights = axis.weights(x);
      std::int32_t sum = kHalf;
      for (std::size_t k = 0; k < taps.count; ++k)
        sum += from[taps.first + k] * weights[k];
      *to++ = rounded(sum);
    }
  }
}

// Rows of `width` pixels become axis.size() such rows.
void resize_rows(const Axis& axis, const std::uint8_t* from, std::size_t width,
                 std::vector<std::int32_t>& sums, std::uint8_t* to) {
  sums.resize(width);
  std::int32_t* const sum = sums.data();
  for (std::size_t y = 0; y < axis.size(); ++y, to += width) {
    const Axis::Taps taps = axis.taps(y);
    std::fill_n(sum, width, kHalf);
    for (std::size_t k = 0; k < taps.count; ++k) {
      const std::int32_t weight = axis.weights(y)[k];
      const std::uint8_t* const row = from + (taps.first + k) * width;
      for (std::size_t x = 0; x < width; ++x)
        sum[x] += row[x] * weight;
    }
    for (std::size_t x = 0; x < width; ++x)
      to[x] = rounded(sum[x]);
  }
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
    kept.narrowed.resize(from_height * width);
    const std::uint8_t* from = sample.bytes.data();
    // A pass that changes no size is left out: a weight of 1 changes no byte.
    for (int channel = 0; channel < shape_.channels; ++channel) {
      const std::uint8_t* narrowed = from;
      if (width != from_width) {
        std::uint8_t* const out = height == from_height ? to : kept.narrowed.data();
        resize_columns(kept.columns, from, from_height, from_width, out);
        narrowed = out;
      }
      if (height != from_height) {
        resize_rows(kept.rows, narrowed, width, kept.sums, to);
      } else if (width == from_width) {
        std::memcpy(to, from, height * width);
      }
      from += from_height * from_width;
      to += height * width;
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
