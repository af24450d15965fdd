// SPDX-License-Identifier: Apache-2.0
// color_jitter: brightness, contrast, saturation and hue changed by drawn amounts in a drawn order, byte
// for byte as torchvision's ColorJitter does to a PIL image.
#include "trainer/input/transforms/color_jitter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "trainer/input/pixels/vector_code.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

// PIL's conversion to "L".
std::int32_t grey_of(std::int32_t red, std::int32_t green, std::int32_t blue) {
  return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
}

AUTOTUNED_VECTOR_CODE void blend_plane(std::int32_t base, float factor,
                                       std::uint8_t* __restrict plane, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    plane[i] = blended(base, plane[i], factor);
}

void blend_with(std::int32_t base, float factor, const Planes& planes) {
  for (std::uint8_t* const plane : {planes.red, planes.green, planes.blue})
    blend_plane(base, factor, plane, planes.count);
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

AUTOTUNED_VECTOR_CODE void saturate(float factor, std::uint8_t* __restrict red,
                                    std::uint8_t* __restrict green, std::uint8_t* __restrict blue,
                                    std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t grey = grey_of(red[i], green[i], blue[i]);
    red[i] = blended(grey, red[i], factor);
    green[i] = blended(grey, green[i], factor);
    blue[i] = blended(grey, blue[i], factor);
  }
}

// All ones or nothing.
constexpr std::int32_t mask(bool is_true) {
  return -static_cast<std::int32_t>(is_true);
}

// The pixels that are processed together, so few that intermediate values stay in the nearest cache.
constexpr std::size_t kHuePixels = 128;

// PIL's way to hue, saturation and value, each a byte, and back with another hue. Its arithmetic, single and
// double precision where it has them, but without a branch: every loop becomes vector code.
//
// With most, middle and least of the three bytes, the hue in sixths is `base` + or - the share x of the
// middle one; which of the six it is depends on the order of the three.
AUTOTUNED_VECTOR_CODE void turn_hue(std::int32_t by, std::uint8_t* __restrict red,
                                    std::uint8_t* __restrict green, std::uint8_t* __restrict blue,
                                    std::size_t count) {
  std::array<std::int32_t, kHuePixels> values;
  std::array<std::int32_t, kHuePixels> leasts;
  std::array<std::int32_t, kHuePixels> hues;
  std::array<std::int32_t, kHuePixels> saturations;
  std::array<std::int32_t, kHuePixels> odd;  // what the middle one becomes in the sixths 1, 3 and 5
  std::array<std::int32_t, kHuePixels> even;  // and in the others
  std::array<float, kHuePixels> in_sixths;
  std::array<float, kHuePixels> turns;   // 1 where that is below 0
  std::array<float, kHuePixels> shares;  // of saturation
  std::array<float, kHuePixels> rests;
  std::array<float, kHuePixels> products;
  count = std::min(count, kHuePixels);  // known below: no look at bounds in the loops
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t r = red[i];
    const std::int32_t g = green[i];
    const std::int32_t b = blue[i];
    values[i] = std::max(std::max(r, g), b);
    leasts[i] = std::min(std::min(r, g), b);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t r = red[i];
    const std::int32_t g = green[i];
    const std::int32_t b = blue[i];
    const std::int32_t most = values[i];
    const std::int32_t least = leasts[i];
    const std::int32_t below = 2 * most + least - r - g - b;  // the middle one's distance
    const auto x = static_cast<float>(below) / static_cast<float>(std::max(most - least, 1));
    const std::int32_t is_red = mask(r == most);
    const std::int32_t is_green = mask(g == most) & ~is_red;
    const std::int32_t is_blue = ~(is_red | is_green);
    const std::int32_t red_order = mask(b <= g);
    const std::int32_t green_order = mask(b <= r);
    const std::int32_t blue_order = mask(r <= g);
    const std::int32_t base = (is_red & (-1 - 2 * red_order)) | (is_green & (3 + 2 * green_order)) |
                              (is_blue & (5 + 2 * blue_order));
    const std::int32_t sign = (is_red & (1 + 2 * red_order)) | (is_green & (-1 - 2 * green_order)) |
                              (is_blue & (-1 - 2 * blue_order));
    in_sixths[i] = static_cast<float>(base) + static_cast<float>(sign) * x;
    turns[i] = static_cast<float>(mask(base < 0) & 1);
    shares[i] = static_cast<float>(most - least) / static_cast<float>(std::max(most, 1));
  }
  for (std::size_t i = 0; i < count; ++i) {
    // A turn is added first and taken away again, as a remainder of a division by 1 is PIL's way.
    const double turned = in_sixths[i] / 6.0 + 1.0 + (turns[i] - 1.0);
    hues[i] = static_cast<std::int32_t>(static_cast<float>(turned) * 255.0);
    saturations[i] = static_cast<std::int32_t>(shares[i] * 255.0);
  }
  for (std::size_t i = 0; i < count; ++i) {
    hues[i] = 6 * ((hues[i] + by) & 255);
    const std::int32_t sixth = (hues[i] * 257 + 257) >> 16;  // hue / 255
    rests[i] = static_cast<float>(hues[i] - 255 * sixth) / 255.0F;
    shares[i] = static_cast<float>(saturations[i]) / 255.0F;
    products[i] = shares[i] * rests[i];
    hues[i] = sixth & mask(sixth != 6);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double value = values[i];
    const double share = shares[i];
    odd[i] = static_cast<std::int32_t>(value * (1.0 - products[i]) + 0.5);
    even[i] = static_cast<std::int32_t>(value * (1.0 - share * (1.0 - rests[i])) + 0.5);
    leasts[i] = static_cast<std::int32_t>(value * (1.0 - share) + 0.5);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t sixth = hues[i];
    const std::int32_t least = leasts[i];
    const std::int32_t most = values[i] - least;
    const std::int32_t middle = even[i] + ((odd[i] - even[i]) & -(sixth & 1)) - least;
    red[i] = static_cast<std::uint8_t>(least + (most & mask((sixth == 0) | (sixth == 5))) +
                                       (middle & mask((sixth == 1) | (sixth == 4))));
    green[i] = static_cast<std::uint8_t>(least + (most & mask((sixth == 1) | (sixth == 2))) +
                                         (middle & mask((sixth == 0) | (sixth == 3))));
    blue[i] = static_cast<std::uint8_t>(least + (most & mask((sixth == 3) | (sixth == 4))) +
                                        (middle & mask((sixth == 2) | (sixth == 5))));
  }
}

void change_hue(std::uint8_t by, const Planes& planes) {
  for (std::size_t i = 0; i < planes.count; i += kHuePixels) {
    turn_hue(by, planes.red + i, planes.green + i, planes.blue + i,
             std::min(kHuePixels, planes.count - i));
  }
}

enum class Adjustment { brightness, contrast, saturation, hue };

struct DrawnChange {
  Adjustment change;
  Interval amount;
};

class ColorJitterStage final : public Stage {
 public:
  ColorJitterStage(std::vector<DrawnChange> changes, const SampleType& type)
      : changes_(std::move(changes)), type_(type) {}

  SampleType output() const override { return type_; }

  Result<Sample> apply(const Sample& sample, const RandomStream& draws, StageMemory* /*memory*/,
                       OutputBuffer& room) const override {
    std::uint8_t* to = nullptr;
    const Sample result = room.take(sample.element, sample.shape, to);
    std::ranges::copy(sample.bytes, to);
    const std::size_t count = sample.bytes.size() / kRgb;
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
  static void apply(Adjustment change, double amount, const Planes& planes) {
    const auto factor = static_cast<float>(amount);
    switch (change) {
      case Adjustment::brightness:
        return change_brightness(factor, planes);
      case Adjustment::contrast:
        return change_contrast(factor, planes);
      case Adjustment::saturation:
        return change_saturation(factor, planes);
      case Adjustment::hue:
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
    return bad_parameter(transform, name, "is not a number of at least 0",
                         "give a number such as 0.4, or [lowest, highest]");
  }
  return Interval{std::max(neutral - *reach, within.lowest), neutral + *reach};
}

}  // namespace

void change_brightness(float factor, const Planes& planes) {
  blend_with(0, factor, planes);
}

void change_contrast(float factor, const Planes& planes) {
  const auto sum =
      static_cast<double>(sum_of_grey(planes.red, planes.green, planes.blue, planes.count));
  const double mean = sum / static_cast<double>(planes.count);
  blend_with(static_cast<std::int32_t>(mean + 0.5), factor, planes);
}

void change_saturation(float factor, const Planes& planes) {
  saturate(factor, planes.red, planes.green, planes.blue, planes.count);
}

MadeStage make_color_jitter(const Transform& transform, const SampleType& input) {
  if (input.channels != kRgb) {
    return fail(ErrorKind::invalid,
                "needs red, green and blue, but the samples have " +
                    std::to_string(input.channels) + " channels",
                {}, "remove color_jitter");
  }
  constexpr Interval kFactors{0, 100};
  constexpr Interval kTurns{-0.5, 0.5};
  std::vector<DrawnChange> changes;
  for (const auto& [change, name] :
       {std::pair{Adjustment::brightness, "brightness"},
        std::pair{Adjustment::contrast, "contrast"},
        std::pair{Adjustment::saturation, "saturation"}, std::pair{Adjustment::hue, "hue"}}) {
    const bool is_hue = change == Adjustment::hue;
    const auto amount = amount_of(transform, name, is_hue ? 0 : 1, is_hue ? kTurns : kFactors);
    if (!amount) return tl::unexpected(amount.error());
    const double neutral = is_hue ? 0 : 1;
    if (amount->lowest != neutral || amount->highest != neutral)
      changes.push_back({change, *amount});
  }
  return std::make_unique<ColorJitterStage>(std::move(changes), input);
}

}  // namespace autotuned::input
