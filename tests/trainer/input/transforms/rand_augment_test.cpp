// SPDX-License-Identifier: Apache-2.0
// rand_augment against torchvision's RandAugment of a PIL image, written plainly for each of its operations.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <utility>
#include <vector>

#include "tests/trainer/input/transforms/applied.hpp"

namespace autotuned::input {
namespace {

using testing::HasSubstr;

using Pixels = std::vector<std::uint8_t>;

constexpr SampleShape kShape{3, 40, 33};
constexpr int kPlane = 40 * 33;

Pixels noise() {
  Pixels pixels(3 * kPlane);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(20 + mix64(i) % 180);  // neither black nor white
  return pixels;
}

int at(const Pixels& pixels, int channel, int y, int x) {
  return pixels[static_cast<std::size_t>((channel * kShape.height + y) * kShape.width + x)];
}

// What becomes of a pixel; -1: that depends on the rounding of a position.
using Formula = std::function<int(const Pixels&, int channel, int y, int x)>;

// From (x, y) of the picture, in pixels, with the middle of the first one at 0.5; 0 from outside.
int nearest(const Pixels& pixels, int channel, double y, double x) {
  const double distance = std::min(std::abs(x - std::round(x)), std::abs(y - std::round(y)));
  if (distance < 0.002) return -1;
  const int row = static_cast<int>(std::floor(y));
  const int column = static_cast<int>(std::floor(x));
  const bool is_inside = row >= 0 && row < kShape.height && column >= 0 && column < kShape.width;
  return is_inside ? pixels[static_cast<std::size_t>(
                         (channel * kShape.height + row) * kShape.width + column)]
                   : 0;
}

int clipped(double value) {
  return static_cast<int>(std::clamp(value, 0.0, 255.0));
}

int blend(int base, int value, double factor) {
  // PIL's 32 bits.
  return clipped(static_cast<float>(base) +
                 static_cast<float>(factor) * static_cast<float>(value - base));
}

int grey(const Pixels& pixels, int y, int x) {
  return (at(pixels, 0, y, x) * 19595 + at(pixels, 1, y, x) * 38470 + at(pixels, 2, y, x) * 7471 +
          0x8000) >>
         16;
}

std::vector<int> sorted_channel(const Pixels& pixels, int channel) {
  std::vector<int> values(pixels.begin() + channel * kPlane,
                          pixels.begin() + (channel + 1) * kPlane);
  std::sort(values.begin(), values.end());
  return values;
}

// The strength of magnitude 9 out of 31 bins: torch.linspace(0, most, 31)[9], three tenths of the way in 32 bits.
double strength(float most) {
  return most / 30.0F * 9.0F;
}

Formula formula_of(std::uint64_t operation, double sign) {
  const double shear = sign * strength(0.3F);
  const double factor = 1.0 + sign * strength(0.9F);
  const double angle = sign * strength(30.0F) / 180 * std::numbers::pi;
  switch (operation) {
    case 0:
      return [](const Pixels& p, int c, int y, int x) { return at(p, c, y, x); };
    case 1:
      return [=](const Pixels& p, int c, int y, int x) {
        return nearest(p, c, y + 0.5, x + 0.5 + shear * (y + 0.5));
      };
    case 2:
      return [=](const Pixels& p, int c, int y, int x) {
        return nearest(p, c, y + 0.5 + shear * (x + 0.5), x + 0.5);
      };
    case 3:
      return [=](const Pixels& p, int c, int y, int x) {
        return nearest(p, c, y + 0.5, x + 0.5 - sign * std::floor(150.0 / 331 * 33 * 0.3));
      };
    case 4:
      return [=](const Pixels& p, int c, int y, int x) {
        return nearest(p, c, y + 0.5 - sign * std::floor(150.0 / 331 * 40 * 0.3), x + 0.5);
      };
    case 5:
      return [=](const Pixels& p, int c, int y, int x) {
        const double dy = y + 0.5 - 20;
        const double dx = x + 0.5 - 16.5;
        return nearest(p, c, std::sin(angle) * dx + std::cos(angle) * dy + 20,
                       std::cos(angle) * dx - std::sin(angle) * dy + 16.5);
      };
    case 6:
      return [=](const Pixels& p, int c, int y, int x) { return blend(0, at(p, c, y, x), factor); };
    case 7:
      return [=](const Pixels& p, int c, int y, int x) {
        return blend(grey(p, y, x), at(p, c, y, x), factor);
      };
    case 8:
      return [=](const Pixels& p, int c, int y, int x) {
        double sum = 0;
        for (int row = 0; row < kShape.height; ++row) {
          for (int column = 0; column < kShape.width; ++column)
            sum += grey(p, row, column);
        }
        return blend(static_cast<int>(sum / kPlane + 0.5), at(p, c, y, x), factor);
      };
    case 9:
      return [=](const Pixels& p, int c, int y, int x) {
        if (y == 0 || x == 0 || y == kShape.height - 1 || x == kShape.width - 1) {
          return at(p, c, y, x);
        }
        double sum = 0;
        for (int dy = -1; dy <= 1; ++dy) {
          for (int dx = -1; dx <= 1; ++dx)
            sum += at(p, c, y + dy, x + dx) * (dy == 0 && dx == 0 ? 5 : 1) / 13.0;
        }
        return blend(static_cast<int>(sum + 0.5), at(p, c, y, x), factor);
      };
    case 10:  // 8 - round(4 * 0.3) bits
      return [](const Pixels& p, int c, int y, int x) { return at(p, c, y, x) / 2 * 2; };
    case 11:
      return [](const Pixels& p, int c, int y, int x) {
        const int value = at(p, c, y, x);
        return value < 255 * 0.7 ? value : 255 - value;
      };
    case 12:
      return [](const Pixels& p, int c, int y, int x) {
        const std::vector<int> sorted = sorted_channel(p, c);
        const double scale = 255.0 / (sorted.back() - sorted.front());
        return clipped(at(p, c, y, x) * scale - sorted.front() * scale);
      };
    default:
      return [](const Pixels& p, int c, int y, int x) {
        const std::vector<int> sorted = sorted_channel(p, c);
        const auto darker = [&](int value) {
          return std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
        };
        const auto step = darker(sorted.back()) / 255;
        return clipped(static_cast<double>((step / 2 + darker(at(p, c, y, x))) / step));
      };
  }
}

TEST(RandAugment, MakesTheChangesOfTorchvision) {
  const Pixels pixels = noise();
  std::set<std::pair<std::uint64_t, bool>> seen;
  for (std::uint64_t number = 0; number < 400 && seen.size() < 28; ++number) {
    const RandomStream draws(kDrawSeed, number);
    const std::uint64_t operation = below(draws.at(0), 14);
    const bool is_negative = below(draws.at(1), 2) == 1;
    if (!seen.emplace(operation, is_negative).second) continue;
    SCOPED_TRACE(testing::Message() << "operation " << operation << ", negative " << is_negative);
    const Pixels changed =
        applied<std::uint8_t>({"rand_augment", {{"operations", 1}}}, kShape, pixels, number);
    ASSERT_EQ(changed.size(), pixels.size());
    const Formula formula = formula_of(operation, is_negative ? -1.0 : 1.0);
    int wrong = 0;
    int unclear = 0;
    for (int channel = 0; channel < 3; ++channel) {
      for (int y = 0; y < kShape.height; ++y) {
        for (int x = 0; x < kShape.width; ++x) {
          const int expected = formula(pixels, channel, y, x);
          if (expected < 0) {
            ++unclear;
          } else {
            wrong += at(changed, channel, y, x) != expected ? 1 : 0;
          }
        }
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_LT(unclear, 3 * kPlane / 20);
  }
  EXPECT_EQ(seen.size(), 28U);
}

// Draws 2 i and 2 i + 1 belong to change i.
TEST(RandAugment, MakesOneChangeAfterTheOther) {
  const Pixels pixels = noise();
  std::set<Pixels> results;
  for (std::uint64_t number = 0; number < 60; ++number) {
    const auto once =
        applied<std::uint8_t>({"rand_augment", {{"operations", 1}}}, kShape, pixels, number);
    const auto twice = applied<std::uint8_t>({"rand_augment"}, kShape, pixels, number);
    const RandomStream draws(kDrawSeed, number);
    if (below(draws.at(0), 14) == 0) {
      EXPECT_EQ(once, pixels);
    }
    if (below(draws.at(2), 14) == 0) {
      EXPECT_EQ(twice, once);
    }
    results.insert(twice);
  }
  EXPECT_GT(results.size(), 45U);
}

TEST(RandAugment, OfNoStrengthMovesAndFadesNothing) {
  const Pixels pixels = noise();
  for (std::uint64_t number = 0; number < 200; ++number) {
    const std::uint64_t operation = below(RandomStream(kDrawSeed, number).at(0), 14);
    if (operation > 11) continue;  // those without strength
    SCOPED_TRACE(operation);
    EXPECT_EQ(applied<std::uint8_t>({"rand_augment", {{"operations", 1}, {"magnitude", 0}}}, kShape,
                                    pixels, number),
              pixels);
  }
}

TEST(RandAugment, RefusesWhatItCannotDo) {
  const SampleType pixels = type_of(Element::uint8, kShape);
  EXPECT_THAT(problem({"rand_augment"}, type_of(Element::uint8, {1, 20, 20})),
              HasSubstr("needs red, green and blue"));
  EXPECT_THAT(problem({"rand_augment"}, type_of(Element::float32, kShape)),
              HasSubstr("does not accept data of floats"));
  EXPECT_THAT(problem({"rand_augment", {{"magnitude", 31}}}, pixels),
              HasSubstr("`magnitude` is not a whole number from 0 to 30"));
  EXPECT_THAT(problem({"rand_augment", {{"bins", 1}}}, pixels), HasSubstr("`bins`"));
  EXPECT_THAT(problem({"rand_augment", {{"operations", 0.5}}}, pixels), HasSubstr("`operations`"));
}

}  // namespace
}  // namespace autotuned::input
