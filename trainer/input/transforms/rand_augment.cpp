// SPDX-License-Identifier: Apache-2.0
// rand_augment: drawn changes of one strength, as torchvision's RandAugment makes them to a PIL image.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainer/input/transforms/affine.hpp"
#include "trainer/input/transforms/color_jitter.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

constexpr int kMaxByte = 255;

// In the order in which they are drawn.
enum class Operation {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  saturation,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
};
constexpr std::uint64_t kOperations = 14;
constexpr std::uint64_t kDrawsOfOperation = 2;  // which one, and the sign of its strength

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

template <class Formula>
Table table_of(const Formula& formula) {
  Table table{};
  for (int i = 0; i <= kMaxByte; ++i)
    table[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(std::clamp<std::int64_t>(formula(i), 0, kMaxByte));
  return table;
}

void look_up(const Table& table, std::uint8_t* pixels, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    pixels[i] = table[pixels[i]];
}

// PIL's ImageOps.autocontrast: from the darkest to the brightest byte of a channel becomes 0 to 255.
Table contrast_table(const Histogram& histogram) {
  int low = 0;
  while (low < kMaxByte && histogram[static_cast<std::size_t>(low)] == 0)
    ++low;
  int high = kMaxByte;
  while (high > 0 && histogram[static_cast<std::size_t>(high)] == 0)
    --high;
  if (high <= low) return table_of([](int i) { return i; });
  const double scale = 255.0 / (high - low);
  const double offset = -low * scale;
  return table_of([&](int i) { return static_cast<std::int64_t>(i * scale + offset); });
}

// PIL's ImageOps.equalize: as many pixels of each byte as of any other, as far as that is possible.
Table equal_table(const Histogram& histogram) {
  std::int64_t all = 0;
  std::int64_t last = 0;
  for (const std::int64_t count : histogram) {
    all += count;
    if (count > 0) last = count;
  }
  const std::int64_t step = (all - last) / kMaxByte;
  if (step == 0) return table_of([](int i) { return i; });
  std::int64_t counted = step / 2;
  return table_of([&](int i) {
    const std::int64_t value = counted / step;
    counted += histogram[static_cast<std::size_t>(i)];
    return value;
  });
}

// Each channel by a table that follows from its histogram.
void look_up_by_channel(Table (*make)(const Histogram&), const SampleShape& shape,
                        std::uint8_t* pixels) {
  const auto plane = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  for (int channel = 0; channel < shape.channels; ++channel, pixels += plane) {
    Histogram histogram{};
    for (std::size_t i = 0; i < plane; ++i)
      ++histogram[pixels[i]];
    look_up(make(histogram), pixels, plane);
  }
}

// PIL's ImageEnhance.Sharpness: from the smoothed picture towards the picture and beyond. The outermost pixels stay.
void change_sharpness(float factor, const SampleShape& shape, const std::uint8_t* from,
                      std::uint8_t* to) {
  const std::ptrdiff_t width = shape.width;
  for (int channel = 0; channel < shape.channels; ++channel) {
    for (int y = 1; y < shape.height - 1; ++y) {
      for (int x = 1; x < shape.width - 1; ++x) {
        const std::uint8_t* const pixel = from + y * width + x;
        int sum = 4 * pixel[0];  // of the weights 1 around and 5 in the middle
        for (std::ptrdiff_t row = -width; row <= width; row += width)
          sum += pixel[row - 1] + pixel[row] + pixel[row + 1];
        const std::int32_t smooth = (2 * sum + 13) / 26;  // sum / 13, rounded
        to[y * width + x] = blended(smooth, pixel[0], factor);
      }
    }
    from += shape.height * width;
    to += shape.height * width;
  }
}

struct AugmentMemory final : StageMemory {
  std::vector<std::uint8_t> before;  // the picture that an operation moves
};

// How strong: step `magnitude` of `bins`.
struct Strength {
  int magnitude = 9;
  int bins = 31;

  // torch.linspace(first, last, bins)[magnitude], in its 32 bits.
  [[nodiscard]] double between(double first, double last) const {
    const auto from = static_cast<float>(first);
    const auto to = static_cast<float>(last);
    const float step = (to - from) / static_cast<float>(bins - 1);
    if (magnitude < bins / 2) return from + step * static_cast<float>(magnitude);
    return to - step * static_cast<float>(bins - magnitude - 1);
  }
  // From 8 to 4.
  [[nodiscard]] int kept_bits() const {
    const double quarter = (bins - 1) / 4.0;
    return 8 - static_cast<int>(std::nearbyint(magnitude / quarter));
  }
};

class RandAugmentStage final : public Stage {
 public:
  RandAugmentStage(std::uint64_t operations, Strength strength, std::vector<float> fill,
                   const SampleType& type)
      : operations_(operations), strength_(strength), fill_(std::move(fill)), type_(type) {}

  SampleType output() const override { return type_; }

  std::unique_ptr<StageMemory> make_memory() const override {
    return std::make_unique<AugmentMemory>();
  }

  Result<Sample> apply(const Sample& sample, const RandomStream& draws, StageMemory* memory,
                       OutputBuffer& room) const override {
    std::uint8_t* to = nullptr;
    const Sample result = room.take(sample.element, sample.shape, to);
    std::ranges::copy(sample.bytes, to);
    auto& before = static_cast<AugmentMemory*>(memory)->before;
    for (std::uint64_t i = 0; i < operations_; ++i) {
      const std::uint64_t first = i * kDrawsOfOperation;
      const auto operation = static_cast<Operation>(below(draws.at(first), kOperations));
      const double sign = below(draws.at(first + 1), 2) == 0 ? 1.0 : -1.0;
      before.assign(to, to + result.bytes.size());
      change(operation, sign, {Element::uint8, sample.shape, before}, to);
    }
    return result;
  }

 private:
  // `to` has the pixels of `before`.
  void change(Operation operation, double sign, const Sample& before, std::uint8_t* to) const {
    const SampleShape& shape = before.shape;
    const std::size_t count = before.bytes.size() / kRgb;
    const Planes planes{to, to + count, to + 2 * count, count};
    // torchvision's proportions, of pictures of 331 x 331.
    const auto distance = [&](int side) {
      return std::trunc(sign * strength_.between(0, 150.0 / 331.0 * side));
    };
    const double shear = sign * strength_.between(0, 0.3);
    const auto factor = static_cast<float>(1.0 + sign * strength_.between(0, 0.9));
    switch (operation) {
      case Operation::identity:
        return;
      case Operation::shear_x:
        return move_pixels({1, shear, 0, 0, 1, 0}, before, fill_, to);
      case Operation::shear_y:
        return move_pixels({1, 0, 0, shear, 1, 0}, before, fill_, to);
      case Operation::translate_x:
        return move_pixels({1, 0, -distance(shape.width), 0, 1, 0}, before, fill_, to);
      case Operation::translate_y:
        return move_pixels({1, 0, 0, 0, 1, -distance(shape.height)}, before, fill_, to);
      case Operation::rotate:
        return move_pixels(rotation(sign * strength_.between(0, 30), shape), before, fill_, to);
      case Operation::brightness:
        return change_brightness(factor, planes);
      case Operation::saturation:
        return change_saturation(factor, planes);
      case Operation::contrast:
        return change_contrast(factor, planes);
      case Operation::sharpness:
        return change_sharpness(factor, shape, before.bytes.data(), to);
      case Operation::posterize: {
        const int mask = ~((1 << (8 - strength_.kept_bits())) - 1);
        return look_up(table_of([&](int i) { return i & mask; }), to, before.bytes.size());
      }
      case Operation::solarize: {
        const double threshold = strength_.between(kMaxByte, 0);
        return look_up(table_of([&](int i) { return i < threshold ? i : kMaxByte - i; }), to,
                       before.bytes.size());
      }
      case Operation::auto_contrast:
        return look_up_by_channel(contrast_table, shape, to);
      case Operation::equalize:
        return look_up_by_channel(equal_table, shape, to);
    }
  }

  std::uint64_t operations_;
  Strength strength_;
  std::vector<float> fill_;
  SampleType type_;
};

// A whole number from `least` to `most`, or `otherwise` if it is absent.
Result<int> number_parameter(const Transform& transform, const char* name, int otherwise, int least,
                             int most) {
  const Json& value = member(transform.parameters, name);
  if (value.is_null()) return otherwise;
  if (!value.is_number_integer() || value < least || value > most) {
    return bad_parameter(
        transform, name,
        "is not a whole number from " + std::to_string(least) + " to " + std::to_string(most),
        "give one such as " + std::to_string(otherwise));
  }
  return value.get<int>();
}

}  // namespace

MadeStage make_rand_augment(const Transform& transform, const SampleType& input) {
  if (input.channels != kRgb) {
    return fail(ErrorKind::invalid,
                "needs red, green and blue, but the samples have " +
                    std::to_string(input.channels) + " channels",
                {}, "remove rand_augment");
  }
  const auto operations = number_parameter(transform, "operations", 2, 1, 100);
  if (!operations) return tl::unexpected(operations.error());
  const auto bins = number_parameter(transform, "bins", 31, 2, 1000);
  if (!bins) return tl::unexpected(bins.error());
  const auto magnitude =
      number_parameter(transform, "magnitude", std::min(9, *bins - 1), 0, *bins - 1);
  if (!magnitude) return tl::unexpected(magnitude.error());
  auto fill = fill_parameter(transform, "fill", input);
  if (!fill) return tl::unexpected(fill.error());
  return std::make_unique<RandAugmentStage>(static_cast<std::uint64_t>(*operations),
                                            Strength{.magnitude = *magnitude, .bins = *bins},
                                            std::move(*fill), input);
}

}  // namespace autotuned::input
