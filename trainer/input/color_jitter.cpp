// SPDX-License-Identifier: Apache-2.0
// color_jitter: brightness, contrast, saturation and hue changed by drawn amounts in a drawn order, byte
// for byte as torchvision's ColorJitter does to a PIL image.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "trainer/input/transform_types.hpp"
#include "trainer/input/vector_code.hpp"

namespace autotuned::input {
namespace {

constexpr int kChannels = 3;

struct Planes {
  std::uint8_t* red;
  std::uint8_t* green;
  std::uint8_t* blue;
  std::size_t count;  // of each
};

// PIL's conversion to "L".
std::int32_t grey_of(std::int32_t red, std::int32_t green, std::int32_t blue) {
  return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
}

// PIL's Image.blend: from `base` towards `value` and beyond; what is behind the point falls away.
std::uint8_t blended(std::int32_t base, std::int32_t value, float factor) {
  const float moved = static_cast<float>(base) + factor * static_cast<float>(value - base);
  return static_cast<std::uint8_t>(std::clamp(moved, 0.0F, 255.0F));
}

void blend_with(std::int32_t base, float factor, const Planes& planes) {
  std::array<std::uint8_t, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = blended(base, static_cast<std::int32_t>(i), factor);
  for (std::uint8_t* const plane : {planes.red, planes.green, planes.blue}) {
    for (std::size_t i = 0; i < planes.count; ++i)
      plane[i] = table[plane[i]];
  }
}

AUTOTUNED_VECTOR_CODE std::uint64_t sum_of_grey(const std::uint8_t* red, const std::uint8_t* green,
                                                const std::uint8_t* blue, std::size_t count) {
  constexpr std::size_t kAtATime = 65'536;  // whose sum fits into 32 bits
  std::uint64_t sum = 0;
  for (std::size_t begin = 0; begin < count; begin += kAtATime) {
    const std::size_t end = std::min(begin + kAtATime, count);
    std::uint32_t part = 0;
    for (std::size_t i = begin; i < end; ++i)
      part += static_cast<std::uint32_t>(grey_of(red[i], green[i], blue[i]));
    sum += part;
  }
  return sum;
}

void change_contrast(float factor, const Planes& planes) {
  const auto sum =
      static_cast<double>(sum_of_grey(planes.red, planes.green, planes.blue, planes.count));
  const double mean = sum / static_cast<double>(planes.count);
  blend_with(static_cast<std::int32_t>(mean + 0.5), factor, planes);
}

AUTOTUNED_VECTOR_CODE void change_saturation(float factor, std::uint8_t* __restrict red,
                                             std::uint8_t* __restrict green,
                                             std::uint8_t* __restrict blue, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t grey = grey_of(red[i], green[i], blue[i]);
    red[i] = blended(grey, red[i], factor);
    green[i] = blended(grey, green[i], factor);
    blue[i] = blended(grey, blue[i], factor);
  }
}

struct Hsv {
  std::uint8_t hue = 0;
  std::uint8_t saturation = 0;
  std::uint8_t value = 0;
};

// The arithmetic of PIL, single and double precision where it has them.
Hsv hsv_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  const std::uint8_t most = std::max({red, green, blue});
  const std::uint8_t least = std::min({red, green, blue});
  if (most == least) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const float saturation = range / static_cast<float>(most);
  const float from_red = static_cast<float>(most - red) / range;
  const float from_green = static_cast<float>(most - green) / range;
  const float from_blue = static_cast<float>(most - blue) / range;
  float hue = 0;
  if (red == most) {
    hue = from_blue - from_green;
  } else if (green == most) {
    hue = static_cast<float>(2.0 + from_red - from_blue);
  } else {
    hue = static_cast<float>(4.0 + from_green - from_red);
  }
  // Between 5/6 and 5/3: the remainder of a division by 1.
  const double turned = hue / 6.0 + 1.0;
  hue = static_cast<float>(turned >= 1.0 ? turned - 1.0 : turned);
  return {static_cast<std::uint8_t>(std::clamp(static_cast<int>(hue * 255.0), 0, 255)),
          static_cast<std::uint8_t>(std::clamp(static_cast<int>(saturation * 255.0), 0, 255)),
          most};
}

std::array<std::uint8_t, kChannels> rgb_of(const Hsv& color) {
  const std::uint8_t v = color.value;
  if (color.saturation == 0) return {v, v, v};
  const double sixths = color.hue * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const auto rest = static_cast<float>(sixths - sector);
  const auto saturation = static_cast<float>(color.saturation / 255.0);
  const auto byte = [v](double share) {
    return static_cast<std::uint8_t>(std::clamp(static_cast<int>(std::round(v * share)), 0, 255));
  };
  const std::uint8_t p = byte(1.0 - saturation);
  const std::uint8_t q = byte(1.0 - saturation * rest);
  const std::uint8_t t = byte(1.0 - saturation * (1.0 - rest));
  switch (sector % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

void change_hue(std::uint8_t by, const Planes& planes) {
  for (std::size_t i = 0; i < planes.count; ++i) {
    Hsv color = hsv_of(planes.red[i], planes.green[i], planes.blue[i]);
    color.hue = static_cast<std::uint8_t>(color.hue + by);
    const auto [red, green, blue] = rgb_of(color);
    planes.red[i] = red;
    planes.green[i] = green;
    planes.blue[i] = blue;
  }
}

enum class Change { brightness, contrast, saturation, hue };

struct DrawnChange {
  Change change;
  Interval amount;
};

class ColorJitterStage final : public Stage {
 public:
  ColorJitterStage(std::vector<DrawnChange> changes, const SampleType& type)
      : changes_(std::move(changes)), type_(type) {}

  SampleType output() const override { return type_; }

  Result<Sample> apply(const Sample& sample, const RandomStream& draws, StageMemory* /*memory*/,
                       SampleRoom& room) const override {
    std::uint8_t* to = nullptr;
    const Sample result = room.take(sample.element, sample.shape, to);
    std::ranges::copy(sample.bytes, to);
    const std::size_t count = sample.bytes.size() / kChannels;
    const Planes planes{to, to + count, to + 2 * count, count};
    // Draws 0 to 3 belong to the kinds, whether they are used or not, those from 4 on to the order.
    std::array<std::size_t, 4> order = {0, 1, 2, 3};
    for (std::size_t i = changes_.size(); i > 1; --i)
      std::swap(order[i - 1], order[below(draws.at(2 + i), i)]);
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const DrawnChange& one = changes_[order[i]];
      apply(one.change, one.amount.at(draws.at(static_cast<std::uint64_t>(one.change))), planes);
    }
    return result;
  }

 private:
  static void apply(Change change, double amount, const Planes& planes) {
    const auto factor = static_cast<float>(amount);
    switch (change) {
      case Change::brightness:
        return blend_with(0, factor, planes);
      case Change::contrast:
        return change_contrast(factor, planes);
      case Change::saturation:
        return change_saturation(factor, planes.red, planes.green, planes.blue, planes.count);
      case Change::hue:
        return change_hue(static_cast<std::uint8_t>(static_cast<int>(amount * 255)), planes);
    }
  }

  std::vector<DrawnChange> changes_;
  SampleType type_;
};

// A number means so far to both sides of what changes nothing.
Result<Interval> amount_of(const Transform& transform, const char* name, double neutral,
                           Interval within) {
  const Json& given = member(transform.parameters, name);
  if (given.is_array() || given.is_null())
    return interval_parameter(transform, name, {neutral, neutral}, within);
  const auto reach = number_of(given);
  if (!reach || *reach < 0 || neutral + *reach > within.highest) {
    return bad_parameter(transform, name, "is not an amount from 0 on",
                         "give a number such as 0.4, or [lowest, highest]");
  }
  return Interval{std::max(neutral - *reach, within.lowest), neutral + *reach};
}

}  // namespace

MadeStage make_color_jitter(const Transform& transform, const SampleType& input) {
  if (input.channels != kChannels) {
    return fail(
        ErrorKind::invalid,
        "needs red, green and blue, but there are " + std::to_string(input.channels) + " channels",
        {}, "leave color_jitter out");
  }
  constexpr Interval kFactors{0, 100};
  constexpr Interval kTurns{-0.5, 0.5};
  std::vector<DrawnChange> changes;
  for (const auto& [change, name] :
       {std::pair{Change::brightness, "brightness"}, std::pair{Change::contrast, "contrast"},
        std::pair{Change::saturation, "saturation"}, std::pair{Change::hue, "hue"}}) {
    const bool is_hue = change == Change::hue;
    const auto amount = amount_of(transform, name, is_hue ? 0 : 1, is_hue ? kTurns : kFactors);
    if (!amount) return tl::unexpected(amount.error());
    const double neutral = is_hue ? 0 : 1;
    if (amount->lowest != neutral || amount->highest != neutral)
      changes.push_back({change, *amount});
  }
  return std::make_unique<ColorJitterStage>(std::move(changes), input);
}

}  // namespace autotuned::input
