// SPDX-License-Identifier: Apache-2.0
// pad, random_rotation and random_erasing, as torchvision's Pad, RandomRotation (of a PIL image, by the nearest pixel) and
// RandomErasing.
#include "trainer/input/transforms/affine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

// --- pad ------------------------------------------------------------------------------------------

enum class Margin {
  constant,   // the fill
  edge,       // the outermost pixel
  reflect,    // the picture mirrored at the centre of its outermost pixels
  symmetric,  // the picture mirrored at its edge
};

struct Sides {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;

  [[nodiscard]] int most_of_rows() const { return std::max(top, bottom); }
  [[nodiscard]] int most_of_columns() const { return std::max(left, right); }
};

constexpr int kNowhere = -1;

// The position of 0 to `size` - 1 from which `at` is taken, or kNowhere: the fill.
int source_of(int at, int size, Margin margin) {
  if (at >= 0 && at < size) return at;
  switch (margin) {
    case Margin::constant:
      break;
    case Margin::edge:
      return at < 0 ? 0 : size - 1;
    case Margin::reflect:
      return at < 0 ? -at : 2 * (size - 1) - at;
    case Margin::symmetric:
      return at < 0 ? -at - 1 : 2 * size - 1 - at;
  }
  return kNowhere;
}

class PadStage final : public Stage {
 public:
  PadStage(Sides sides, Margin margin, std::vector<float> fill, const SampleType& input)
      : sides_(sides), margin_(margin), fill_(std::move(fill)), output_(input) {
    for (int* const height : {&output_.height.least, &output_.height.most})
      *height += sides.top + sides.bottom;
    for (int* const width : {&output_.width.least, &output_.width.most})
      *width += sides.left + sides.right;
  }

  SampleType output() const override { return output_; }

  Result<Sample> apply(const Sample& sample, const RandomStream& /*draws*/, StageMemory* /*memory*/,
                       OutputBuffer& room) const override {
    const SampleShape& from = sample.shape;
    if (!can_pad(from.height, from.width)) {
      return fail(ErrorKind::invalid,
                  "the picture has " + std::to_string(from.height) + " x " +
                      std::to_string(from.width) + " pixels, too few for this margin",
                  {}, "remove it, or pad less");
    }
    std::uint8_t* to = nullptr;
    const Sample result = room.take(sample.element,
                                    {from.channels, from.height + sides_.top + sides_.bottom,
                                     from.width + sides_.left + sides_.right},
                                    to);
    if (sample.element == Element::uint8) {
      pad(sample.bytes.data(), from, to);
    } else {
      pad(sample.floats(), from, reinterpret_cast<float*>(to));
    }
    return result;
  }

  [[nodiscard]] bool can_pad(int height, int width) const {
    const int left_over = margin_ == Margin::reflect ? 1 : 0;
    if (margin_ != Margin::reflect && margin_ != Margin::symmetric) return true;
    return sides_.most_of_rows() <= height - left_over &&
           sides_.most_of_columns() <= width - left_over;
  }

 private:
  template <class T>
  void pad(const T* from, const SampleShape& shape, T* to) const {
    const auto width = static_cast<std::size_t>(shape.width);
    for (int channel = 0; channel < shape.channels; ++channel) {
      const auto fill = static_cast<T>(fill_[static_cast<std::size_t>(channel)]);
      for (int y = -sides_.top; y < shape.height + sides_.bottom; ++y) {
        const int source = source_of(y, shape.height, margin_);
        const T* const row = from + static_cast<std::size_t>(std::max(source, 0)) * width;
        const auto at = [&](int x) {
          const int column = source_of(x, shape.width, margin_);
          return source == kNowhere || column == kNowhere ? fill : row[column];
        };
        for (int x = -sides_.left; x < 0; ++x)
          *to++ = at(x);
        if (source == kNowhere) {
          std::fill_n(to, width, fill);
        } else {
          std::memcpy(to, row, width * sizeof(T));
        }
        to += width;
        for (int x = shape.width; x < shape.width + sides_.right; ++x)
          *to++ = at(x);
      }
      from += static_cast<std::size_t>(shape.height) * width;
    }
  }

  Sides sides_;
  Margin margin_;
  std::vector<float> fill_;
  SampleType output_;
};

Result<Sides> sides_of(const Transform& transform) {
  constexpr int kMax = 4096;
  const Json& by = member(transform.parameters, "by");
  const bool is_list = by.is_array() && by.size() == 4;
  std::array<int, 4> sides{};
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const Json& side = is_list ? by[i] : by;
    if (!side.is_number_integer() || side < 0 || side > kMax) {
      return bad_parameter(transform, "by", "is not a number of pixels from 0 to 4096",
                           "give one such as 4, or [left, top, right, bottom]");
    }
    sides[i] = side.get<int>();
  }
  return Sides{.left = sides[0], .top = sides[1], .right = sides[2], .bottom = sides[3]};
}

Result<Margin> margin_of(const Transform& transform) {
  const Json& mode = member(transform.parameters, "mode");
  if (mode.is_null() || mode == "constant") return Margin::constant;
  if (mode == "edge") return Margin::edge;
  if (mode == "reflect") return Margin::reflect;
  if (mode == "symmetric") return Margin::symmetric;
  return bad_parameter(transform, "mode", "is not a kind of margin",
                       "use constant, edge, reflect or symmetric");
}

// --- random_rotation ------------------------------------------------------------------------------

// PIL keeps so many decimal places of sine and cosine: a right angle is exact.
double to_15_places(double value) {
  constexpr double kPlaces = 1e15;
  return std::nearbyint(value * kPlaces) / kPlaces;
}

// PIL's 16 binary places, in which it steps from pixel to pixel.
std::int64_t to_fixed(double value) {
  constexpr double kOne = 65'536;
  return static_cast<std::int64_t>(std::floor(value * kOne + 0.5));
}

template <class T>
void move_nearest(const Affine& source, const T* from, const SampleShape& shape,
                  const std::vector<float>& fill, T* to) {
  const std::int64_t step_x = to_fixed(source[0]);
  const std::int64_t step_y = to_fixed(source[3]);
  const std::int64_t row_step_x = to_fixed(source[1]);
  const std::int64_t row_step_y = to_fixed(source[4]);
  // The source of the middle of the first pixel.
  const std::int64_t first_x = to_fixed(source[2] + source[0] * 0.5 + source[1] * 0.5);
  const std::int64_t first_y = to_fixed(source[5] + source[3] * 0.5 + source[4] * 0.5);
  const auto width = static_cast<std::size_t>(shape.width);
  for (const float outside : fill) {
    for (int row = 0; row < shape.height; ++row) {
      std::int64_t x = first_x + row * row_step_x;
      std::int64_t y = first_y + row * row_step_y;
      for (int column = 0; column < shape.width; ++column, x += step_x, y += step_y) {
        const std::int64_t at_x = x >> 16;
        const std::int64_t at_y = y >> 16;
        const bool is_inside = at_x >= 0 && at_x < shape.width && at_y >= 0 && at_y < shape.height;
        *to++ = is_inside
                    ? from[static_cast<std::size_t>(at_y) * width + static_cast<std::size_t>(at_x)]
                    : static_cast<T>(outside);
      }
    }
    from += static_cast<std::size_t>(shape.height) * width;
  }
}

class RotationStage final : public Stage {
 public:
  RotationStage(Interval degrees, std::vector<float> fill, const SampleType& type)
      : degrees_(degrees), fill_(std::move(fill)), type_(type) {}

  SampleType output() const override { return type_; }

  Result<Sample> apply(const Sample& sample, const RandomStream& draws, StageMemory* /*memory*/,
                       OutputBuffer& room) const override {
    std::uint8_t* to = nullptr;
    const Sample result = room.take(sample.element, sample.shape, to);
    move_pixels(rotation(degrees_.at(draws.at(0)), sample.shape), sample, fill_, to);
    return result;
  }

 private:
  Interval degrees_;
  std::vector<float> fill_;  // one per channel
  SampleType type_;
};

// --- random_erasing -------------------------------------------------------------------------------

constexpr int kErasingTries = 10;
// Draw 0 decides whether; each try has area, proportions, top and left.
constexpr std::uint64_t kDrawsOfErasingTry = 4;

class ErasingStage final : public Stage {
 public:
  ErasingStage(double probability, Interval scale, Interval ratio, std::vector<float> value,
               const SampleType& type)
      : probability_(probability),
        scale_(scale),
        log_ratio_{std::log(ratio.lowest), std::log(ratio.highest)},
        value_(std::move(value)),
        type_(type) {}

  SampleType output() const override { return type_; }

  Result<Sample> apply(const Sample& sample, const RandomStream& draws, StageMemory* /*memory*/,
                       OutputBuffer& room) const override {
    std::uint8_t* to = nullptr;
    const Sample result = room.take(sample.element, sample.shape, to);
    std::ranges::copy(sample.bytes, to);
    if (Interval{0, 1}.at(draws.at(0)) >= probability_) return result;
    const auto part = drawn(sample.shape, draws);
    if (!part) return result;
    if (sample.element == Element::uint8) {
      erase(sample.shape, *part, to);
    } else {
      erase(sample.shape, *part, reinterpret_cast<float*>(to));
    }
    return result;
  }

 private:
  // Nothing: no part that was tried is smaller than the picture.
  std::optional<Window> drawn(const SampleShape& shape, const RandomStream& draws) const {
    const double area = static_cast<double>(shape.height) * shape.width;
    for (std::uint64_t i = 0; i < kErasingTries; ++i) {
      const std::uint64_t first = 1 + i * kDrawsOfErasingTry;
      const double wanted = area * scale_.at(draws.at(first));
      const double ratio = std::exp(log_ratio_.at(draws.at(first + 1)));
      const double height = std::nearbyint(std::sqrt(wanted * ratio));
      const double width = std::nearbyint(std::sqrt(wanted / ratio));
      if (height >= shape.height || width >= shape.width) continue;
      Window part{.height = static_cast<int>(height), .width = static_cast<int>(width)};
      part.top = offset(shape.height - part.height, draws.at(first + 2));
      part.left = offset(shape.width - part.width, draws.at(first + 3));
      return part;
    }
    return std::nullopt;
  }

  static int offset(int room, std::uint64_t random) {
    return static_cast<int>(below(random, static_cast<std::uint64_t>(room) + 1));
  }

  template <class T>
  void erase(const SampleShape& shape, const Window& part, T* to) const {
    const auto width = static_cast<std::size_t>(shape.width);
    const std::size_t plane = static_cast<std::size_t>(shape.height) * width;
    for (std::size_t channel = 0; channel < value_.size(); ++channel) {
      T* row = to + channel * plane + static_cast<std::size_t>(part.top) * width +
               static_cast<std::size_t>(part.left);
      for (int y = 0; y < part.height; ++y, row += width)
        std::fill_n(row, static_cast<std::size_t>(part.width), static_cast<T>(value_[channel]));
    }
  }

  double probability_;
  Interval scale_;
  Interval log_ratio_;  // height over width
  std::vector<float> value_;
  SampleType type_;
};

// --- class masks ----------------------------------------------------------------------------------

// The same transform for a class mask.
Transform with_no_class(const Transform& transform) {
  Transform of_mask = transform;
  of_mask.parameters["fill"] = kNoClass;
  return of_mask;
}

}  // namespace

Affine rotation(double degrees, const SampleShape& shape) {
  double angle = std::fmod(degrees, 360.0);
  if (angle < 0) angle += 360.0;
  angle *= -std::numbers::pi / 180.0;
  const double middle_x = shape.width / 2.0;
  const double middle_y = shape.height / 2.0;
  const double cosine = to_15_places(std::cos(angle));
  const double sine = to_15_places(std::sin(angle));
  Affine source = {cosine, sine, 0, -sine, cosine, 0};
  source[2] = source[0] * -middle_x + source[1] * -middle_y + middle_x;
  source[5] = source[3] * -middle_x + source[4] * -middle_y + middle_y;
  return source;
}

void move_pixels(const Affine& source, const Sample& sample, const std::vector<float>& fill,
                 std::uint8_t* to) {
  if (sample.element == Element::uint8) {
    move_nearest(source, sample.bytes.data(), sample.shape, fill, to);
  } else {
    move_nearest(source, sample.floats(), sample.shape, fill, reinterpret_cast<float*>(to));
  }
}

MadeStage make_mask_pad(const Transform& transform, const SampleType& input) {
  return make_pad(with_no_class(transform), input);
}

MadeStage make_mask_rotation(const Transform& transform, const SampleType& input) {
  return make_random_rotation(with_no_class(transform), input);
}

MadeStage make_pad(const Transform& transform, const SampleType& input) {
  const auto sides = sides_of(transform);
  if (!sides) return tl::unexpected(sides.error());
  const auto margin = margin_of(transform);
  if (!margin) return tl::unexpected(margin.error());
  auto fill = fill_parameter(transform, "fill", input);
  if (!fill) return tl::unexpected(fill.error());
  auto stage = std::make_unique<PadStage>(*sides, *margin, std::move(*fill), input);
  if (!stage->can_pad(input.height.least, input.width.least)) {
    return bad_parameter(transform, "by", "is more than the picture has to mirror",
                         "pad less, or use mode: edge");
  }
  return MadeStage(std::move(stage));
}

MadeStage make_random_rotation(const Transform& transform, const SampleType& input) {
  constexpr double kMax = 360;
  const Json& given = member(transform.parameters, "degrees");
  const auto reach = number_of(given);
  if (!given.is_array() && (!reach || *reach < 0 || *reach > kMax)) {
    return bad_parameter(transform, "degrees", "is not a number from 0 to 360",
                         "give an angle such as 15, or [lowest, highest]");
  }
  const auto degrees = given.is_array()
                           ? interval_parameter(transform, "degrees", {}, {-kMax, kMax})
                           : Result<Interval>(Interval{-*reach, *reach});
  if (!degrees) return tl::unexpected(degrees.error());
  auto fill = fill_parameter(transform, "fill", input);
  if (!fill) return tl::unexpected(fill.error());
  return std::make_unique<RotationStage>(*degrees, std::move(*fill), input);
}

MadeStage make_random_erasing(const Transform& transform, const SampleType& input) {
  const Json& given = member(transform.parameters, "probability");
  const auto probability = given.is_null() ? 0.5 : number_of(given);
  if (!probability || *probability < 0 || *probability > 1) {
    return bad_parameter(transform, "probability", "is not a number from 0 to 1",
                         "give a share such as 0.5");
  }
  const auto scale = interval_parameter(transform, "scale", {0.02, 0.33}, {0.0, 1.0});
  if (!scale) return tl::unexpected(scale.error());
  const auto ratio = interval_parameter(transform, "ratio", {0.3, 3.3}, {0.01, 100.0});
  if (!ratio) return tl::unexpected(ratio.error());
  auto value = fill_parameter(transform, "value", input);
  if (!value) return tl::unexpected(value.error());
  return std::make_unique<ErasingStage>(*probability, *scale, *ratio, std::move(*value), input);
}

}  // namespace autotuned::input
