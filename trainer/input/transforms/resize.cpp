// SPDX-License-Identifier: Apache-2.0
// resize and resize_shorter: bilinear with antialiasing, byte for byte what PIL's Image.resize gives: two passes over a
// triangle filter as wide as the reduction, weights of 22 binary digits, rounded after each pass. Columns
// come first, as in every PIL before Pillow 13, which begins with the rows where that is less work.
// Class masks: the nearest pixel, as torchvision's Resize of a Mask.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "trainer/input/pixels/weighted_rows.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

// PIL's weights have two binary digits less than ours.
constexpr int kPilWeightBits = 22;
constexpr int kExtraBits = kWeightBits - kPilWeightBits;
// The rows that are processed together: they fit into the nearest cache, and are a multiple of what vectors process at
// once.
constexpr std::size_t kTileBytes = std::size_t{16} << 10U;
constexpr std::size_t kRowsAtOnce = 32;
constexpr std::size_t kMaxTileRows = 128;

// The weights of the source pixels for each pixel of the result, along one axis.
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
    const std::size_t most = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
    weights_.reset(static_cast<std::size_t>(to), most);
    exact_.resize(most);
    rounded_.resize(most);
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
      for (std::size_t k = 0; k < count; ++k) {
        const double exact = 0.5 + exact_[k] / sum * (1 << kPilWeightBits);
        rounded_[k] = static_cast<std::uint32_t>(exact) << kExtraBits;
      }
      // Where a picture grows, the outermost weighs nothing: two rows are less work than three.
      std::size_t begin = 0;
      std::size_t end = count;
      while (end > 1 && rounded_[end - 1] == 0)
        --end;
      while (begin + 1 < end && rounded_[begin] == 0)
        ++begin;
      weights_.set(static_cast<std::size_t>(i), static_cast<std::size_t>(first) + begin,
                   {rounded_.data() + begin, end - begin});
    }
  }

  [[nodiscard]] const RowWeights& weights() const { return weights_; }

 private:
  int from_ = 0;
  int to_ = 0;
  RowWeights weights_;
  std::vector<double> exact_;  // of one pixel
  std::vector<std::uint32_t> rounded_;
};

struct ResizeMemory final : StageMemory {
  Axis columns;
  Axis rows;
  std::vector<std::uint8_t> narrowed;  // all channels after the first pass
  std::vector<std::uint8_t> tile;      // some rows on their side, before and after
  std::vector<std::uint8_t> narrow_tile;
};

// Resizes each of `height` rows of `width` pixels to axis.size() pixels. A few rows are transposed, so that their
// columns are processed together.
void resize_columns(const RowWeights& axis, const std::uint8_t* from, std::size_t height,
                    std::size_t width, ResizeMemory& memory, std::uint8_t* to) {
  const std::size_t fitting = kTileBytes / width / kRowsAtOnce * kRowsAtOnce;
  const std::size_t rows = std::min(height, std::clamp(fitting, kRowsAtOnce, kMaxTileRows));
  memory.tile.resize(std::max(memory.tile.size(), rows * width));
  memory.narrow_tile.resize(std::max(memory.narrow_tile.size(), rows * axis.size()));
  for (std::size_t row = 0;;) {
    transpose(from + row * width, rows, width, memory.tile.data());
    for (std::size_t x = 0; x < axis.size(); ++x)
      axis.weigh(x, memory.tile.data(), rows, memory.narrow_tile.data() + x * rows);
    transpose(memory.narrow_tile.data(), axis.size(), rows, to + row * axis.size());
    if (row + rows == height) return;
    row = std::min(row + rows, height - rows);  // the last ones once more with those before them
  }
}

// Rows of `width` pixels become axis.size() such rows.
void resize_rows(const RowWeights& axis, const std::uint8_t* from, std::size_t width,
                 std::uint8_t* to) {
  for (std::size_t y = 0; y < axis.size(); ++y, to += width)
    axis.weigh(y, from, width, to);
}

// `sample` with the rows and columns of `shape`, in `room`.
Sample resized(const Sample& sample, const SampleShape& shape, ResizeMemory& kept,
               OutputBuffer& room) {
  const auto from_height = static_cast<std::size_t>(sample.shape.height);
  const auto from_width = static_cast<std::size_t>(sample.shape.width);
  const auto height = static_cast<std::size_t>(shape.height);
  const auto width = static_cast<std::size_t>(shape.width);
  std::uint8_t* to = nullptr;
  const Sample result = room.take(Element::uint8, shape, to);
  kept.columns.prepare(sample.shape.width, shape.width);
  kept.rows.prepare(sample.shape.height, shape.height);
  // Rows of all channels lie one after the other. A pass that changes no size is left out: a weight of
  // 1 changes no byte.
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::uint8_t* narrowed = sample.bytes.data();
  if (width != from_width) {
    kept.narrowed.resize(std::max(kept.narrowed.size(), channels * from_height * width));
    std::uint8_t* const out = height == from_height ? to : kept.narrowed.data();
    resize_columns(kept.columns.weights(), narrowed, channels * from_height, from_width, kept, out);
    narrowed = out;
  }
  if (height == from_height) {
    if (width == from_width) std::memcpy(to, narrowed, channels * height * width);
    return result;
  }
  for (std::size_t channel = 0; channel < channels; ++channel) {
    resize_rows(kept.rows.weights(), narrowed + channel * from_height * width, width,
                to + channel * height * width);
  }
  return result;
}

// The position of each of `to` pixels among `from`: PyTorch's interpolate(mode="nearest"), in 32 bits as there.
int nearest_of(int at, int from, int to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  return std::min(static_cast<int>(std::floor(static_cast<float>(at) * scale)), from - 1);
}

// The same by the nearest pixels. REQUIRES: one channel of bytes.
Sample nearest(const Sample& sample, const SampleShape& shape, OutputBuffer& room) {
  std::uint8_t* to = nullptr;
  const Sample result = room.take(Element::uint8, shape, to);
  const auto width = static_cast<std::size_t>(sample.shape.width);
  for (int y = 0; y < shape.height; ++y) {
    const auto row = static_cast<std::size_t>(nearest_of(y, sample.shape.height, shape.height));
    const std::uint8_t* const from = sample.bytes.data() + row * width;
    for (int x = 0; x < shape.width; ++x)
      *to++ = from[nearest_of(x, sample.shape.width, shape.width)];
  }
  return result;
}

class ResizeStage final : public Stage {
 public:
  // `is_mask`: of class masks, without a memory.
  ResizeStage(Size size, int channels, bool is_mask)
      : shape_{channels, size.height, size.width}, is_mask_(is_mask) {}

  SampleType output() const override { return type_of(Element::uint8, shape_); }
  std::unique_ptr<StageMemory> make_memory() const override {
    return is_mask_ ? nullptr : std::make_unique<ResizeMemory>();
  }

  Result<Sample> apply(const Sample& sample, const RandomStream& /*draws*/, StageMemory* memory,
                       OutputBuffer& room) const override {
    if (is_mask_) return nearest(sample, shape_, room);
    return resized(sample, shape_, *static_cast<ResizeMemory*>(memory), room);
  }

 private:
  SampleShape shape_;
  bool is_mask_;
};

class ResizeShorterStage final : public Stage {
 public:
  // `is_mask`: of class masks, without a memory.
  ResizeShorterStage(Size least, const SampleType& input, bool is_mask)
      : least_(least), output_(type_after(least, input)), is_mask_(is_mask) {}

  SampleType output() const override { return output_; }
  std::unique_ptr<StageMemory> make_memory() const override {
    return is_mask_ ? nullptr : std::make_unique<ResizeMemory>();
  }

  Result<Sample> apply(const Sample& sample, const RandomStream& /*draws*/, StageMemory* memory,
                       OutputBuffer& room) const override {
    const Sides to = sides_after(least_, {sample.shape.height, sample.shape.width});
    if (to.height * to.width > kMaxPixels) {
      return fail(ErrorKind::unsupported,
                  "the picture would become " + std::to_string(to.height) + " x " +
                      std::to_string(to.width) + " pixels, which is too large",
                  {}, "remove it");
    }
    const SampleShape shape = {sample.shape.channels, static_cast<int>(to.height),
                               static_cast<int>(to.width)};
    if (is_mask_) return nearest(sample, shape, room);
    return resized(sample, shape, *static_cast<ResizeMemory*>(memory), room);
  }

 private:
  struct Sides {
    std::int64_t height = 1;
    std::int64_t width = 1;
  };

  // The longer side is rounded down, as torchvision does.
  static Sides sides_after(Size least, Sides from) {
    Sides to{least.height, least.width};
    if (from.width * least.height >= from.height * least.width) {
      to.width = std::max(to.width, from.width * least.height / from.height);
    } else {
      to.height = std::max(to.height, from.height * least.width / from.width);
    }
    return to;
  }

  static SampleType type_after(Size least, const SampleType& input) {
    // A side of the result is longest if that side of the input is longest and the other one shortest.
    const Sides widest = sides_after(least, {input.height.least, input.width.most});
    const Sides highest = sides_after(least, {input.height.most, input.width.least});
    const auto side = [](std::int64_t pixels) {
      return static_cast<int>(std::min(pixels, kMaxPixels));
    };
    SampleType output = input;
    output.height = {least.height, side(highest.height)};
    output.width = {least.width, side(widest.width)};
    if (input.has_one_shape()) {
      output.height.least = output.height.most;
      output.width.least = output.width.most;
    }
    return output;
  }

  Size least_;
  SampleType output_;
  bool is_mask_;
};

MadeStage made_resize(const Transform& transform, const SampleType& input, bool is_mask) {
  const auto size = size_parameter(transform);
  if (!size) return tl::unexpected(size.error());
  return std::make_unique<ResizeStage>(*size, input.channels, is_mask);
}

MadeStage made_resize_shorter(const Transform& transform, const SampleType& input, bool is_mask) {
  const auto size = size_parameter(transform);
  if (!size) return tl::unexpected(size.error());
  return std::make_unique<ResizeShorterStage>(*size, input, is_mask);
}

}  // namespace

MadeStage make_resize(const Transform& transform, const SampleType& input) {
  return made_resize(transform, input, false);
}

MadeStage make_resize_shorter(const Transform& transform, const SampleType& input) {
  return made_resize_shorter(transform, input, false);
}

MadeStage make_mask_resize(const Transform& transform, const SampleType& input) {
  return made_resize(transform, input, true);
}

MadeStage make_mask_resize_shorter(const Transform& transform, const SampleType& input) {
  return made_resize_shorter(transform, input, true);
}

}  // namespace autotuned::input
