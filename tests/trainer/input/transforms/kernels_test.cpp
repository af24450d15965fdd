// SPDX-License-Identifier: Apache-2.0
// Vector code gives, bit for bit and at every width, what one number after the other gives. Built twice: with
// what this processor chooses, and with what one without AVX2 runs (AUTOTUNED_PLAIN_CODE).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/trainer/input/fixtures.hpp"
#include "tests/trainer/input/transforms/pil_hue.hpp"
#include "trainer/input/common/random.hpp"
#include "trainer/input/pixels/weighted_rows.hpp"
#include "trainer/input/transforms/pixel_table.hpp"
#include "trainer/input/transforms/point_wise.hpp"

#if defined(AUTOTUNED_PLAIN_CODE)
#define AUTOTUNED_KERNELS PlainKernels
#else
#define AUTOTUNED_KERNELS Kernels
#endif

namespace autotuned::input {
namespace {

constexpr int kMaxWidth = 130;  // more than four vectors of the longest kind

// Any bytes, the darkest and the brightest more often than others.
std::vector<std::uint8_t> bytes_of(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t random = mix64(seed * 1'000'003 + i);
    bytes[i] = static_cast<std::uint8_t>(random % 8 == 0   ? 0
                                         : random % 8 == 1 ? 255
                                                           : random >> 8U);
  }
  return bytes;
}

std::vector<float> floats_of(std::size_t count, std::uint64_t seed) {
  std::vector<float> floats(count);
  for (std::size_t i = 0; i < count; ++i)
    floats[i] = static_cast<float>(static_cast<std::int64_t>(mix64(seed * 1'000'003 + i) >> 40U) -
                                   (1 << 23)) /
                9731.0F;
  return floats;
}

bool is_same(const std::vector<float>& one, const std::vector<float>& other) {
  return one.size() == other.size() &&
         std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

struct Bytes {
  SampleShape shape;
  std::vector<std::uint8_t> values;

  [[nodiscard]] Sample sample() const { return {Element::uint8, shape, values}; }
  [[nodiscard]] SampleType type() const { return type_of(Element::uint8, shape); }
  [[nodiscard]] std::size_t plane() const { return values.size() / 3; }
};

// Three rows and one, so that what lies behind an odd width is seen as well.
template <class Check>
void for_every_width(Check check) {
  for (const int height : {1, 3}) {
    for (int width = 1; width <= kMaxWidth; ++width) {
      SCOPED_TRACE(testing::Message() << height << " x " << width);
      const SampleShape shape{3, height, width};
      check(shape, static_cast<std::uint64_t>(1000 * height + width));
      if (testing::Test::HasFailure()) return;
    }
  }
}

template <class Check>
void for_bytes_of_every_width(Check check) {
  for_every_width([&](const SampleShape& shape, std::uint64_t seed) {
    check(Bytes{shape, bytes_of(static_cast<std::size_t>(shape.elements()), seed)});
  });
}

template <class T>
std::vector<float> yuv(const std::vector<T>& rgb) {
  constexpr float kMatrix[3][4] = {{0.299F, 0.587F, 0.114F, 0.0F},
                                   {-0.16874F, -0.33126F, 0.5F, 128.0F},
                                   {0.5F, -0.41869F, -0.08131F, 128.0F}};
  const std::size_t plane = rgb.size() / 3;
  std::vector<float> result(rgb.size());
  for (std::size_t i = 0; i < plane; ++i) {
    for (std::size_t row = 0; row < 3; ++row) {
      float sum = kMatrix[row][0] * static_cast<float>(rgb[i]);
      sum += kMatrix[row][1] * static_cast<float>(rgb[plane + i]);
      sum += kMatrix[row][2] * static_cast<float>(rgb[2 * plane + i]);
      result[row * plane + i] = sum + kMatrix[row][3];
    }
  }
  return result;
}

TEST(AUTOTUNED_KERNELS, RgbToYuv) {
  for_every_width([](const SampleShape& shape, std::uint64_t seed) {
    const auto count = static_cast<std::size_t>(shape.elements());
    const auto bytes = bytes_of(count, seed);
    const Pipeline of_bytes = pipeline_of(type_of(Element::uint8, shape), {{"rgb_to_yuv"}});
    EXPECT_TRUE(is_same(run<float>(of_bytes, {Element::uint8, shape, bytes}), yuv(bytes)));
    const auto floats = floats_of(count, seed);
    const Pipeline of_floats = pipeline_of(type_of(Element::float32, shape), {{"rgb_to_yuv"}});
    const std::span<const std::uint8_t> stored{reinterpret_cast<const std::uint8_t*>(floats.data()),
                                               count * sizeof(float)};
    EXPECT_TRUE(is_same(run<float>(of_floats, {Element::float32, shape, stored}), yuv(floats)));
  });
}

// Tables of any floats; from 512 bytes on, 64 at a time.
TEST(AUTOTUNED_KERNELS, PixelTable) {
  const PixelTable table{2, floats_of(2 * 256, 1)};
  for (const std::size_t length : {1, 7, 511, 512, 513, 575, 576, 577, 50'176}) {
    SCOPED_TRACE(length);
    const auto bytes = bytes_of(2 * length, length);
    std::vector<float> expected;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      expected.push_back(table.values[(i < length ? 0 : 256) + bytes[i]]);
    std::vector<float> out(bytes.size() + 1, -1.0F);
    convert_sample(table, bytes, out.data());
    EXPECT_EQ(out.back(), -1.0F);
    out.pop_back();
    EXPECT_TRUE(is_same(out, expected));
  }
}

template <class T>
std::vector<T> flipped(std::vector<T> values, int width) {
  for (auto row = values.begin(); row != values.end(); row += width)
    std::reverse(row, row + width);
  return values;
}

TEST(AUTOTUNED_KERNELS, RandomFlip) {
  const Transform flip{"random_flip", {{"probability", 1}}};
  for_every_width([&](const SampleShape& shape, std::uint64_t seed) {
    const auto count = static_cast<std::size_t>(shape.elements());
    const auto bytes = bytes_of(count, seed);
    EXPECT_EQ(run<std::uint8_t>(pipeline_of(type_of(Element::uint8, shape), {flip}),
                                {Element::uint8, shape, bytes}),
              flipped(bytes, shape.width));
    const auto floats = floats_of(count, seed);
    const std::span<const std::uint8_t> stored{reinterpret_cast<const std::uint8_t*>(floats.data()),
                                               count * sizeof(float)};
    EXPECT_TRUE(is_same(run<float>(pipeline_of(type_of(Element::float32, shape), {flip}),
                                   {Element::float32, shape, stored}),
                        flipped(floats, shape.width)));
  });
}

int grey_of(const Bytes& picture, std::size_t i) {
  const std::size_t plane = picture.plane();
  return (picture.values[i] * 19595 + picture.values[plane + i] * 38470 +
          picture.values[2 * plane + i] * 7471 + 0x8000) >>
         16;
}

std::uint8_t blended(int base, int value, float factor) {
  const float moved = static_cast<float>(base) + factor * static_cast<float>(value - base);
  return static_cast<std::uint8_t>(std::clamp(moved, 0.0F, 255.0F));
}

// What a color_jitter of one kind makes, against `base_of(i)`, towards which pixel i moves.
template <class BaseOf>
void expect_jitter(const char* kind, const Bytes& picture, BaseOf base_of) {
  for (const double factor : {0.0, 0.37, 1.6, 40.0}) {
    const Pipeline jitter =
        pipeline_of(picture.type(), {{"color_jitter", {{kind, {factor, factor}}}}});
    auto expected = picture.values;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] =
          blended(base_of(i % picture.plane()), picture.values[i], static_cast<float>(factor));
    }
    EXPECT_EQ(run<std::uint8_t>(jitter, picture.sample()), expected) << kind << " " << factor;
  }
}

TEST(AUTOTUNED_KERNELS, Brightness) {
  for_bytes_of_every_width([](const Bytes& picture) {
    expect_jitter("brightness", picture, [](std::size_t) { return 0; });
  });
}

TEST(AUTOTUNED_KERNELS, Contrast) {
  for_bytes_of_every_width([](const Bytes& picture) {
    double sum = 0;
    for (std::size_t i = 0; i < picture.plane(); ++i)
      sum += grey_of(picture, i);
    const int mean = static_cast<int>(sum / static_cast<double>(picture.plane()) + 0.5);
    expect_jitter("contrast", picture, [mean](std::size_t) { return mean; });
  });
}

TEST(AUTOTUNED_KERNELS, Saturation) {
  for_bytes_of_every_width([](const Bytes& picture) {
    expect_jitter("saturation", picture, [&](std::size_t i) { return grey_of(picture, i); });
  });
}

TEST(AUTOTUNED_KERNELS, Hue) {
  for_bytes_of_every_width([](const Bytes& picture) {
    const std::size_t plane = picture.plane();
    for (const double hue : {0.1, -0.37}) {
      const Pipeline jitter =
          pipeline_of(picture.type(), {{"color_jitter", {{"hue", {hue, hue}}}}});
      const auto by = static_cast<std::uint8_t>(static_cast<int>(hue * 255));
      auto expected = picture.values;
      for (std::size_t i = 0; i < plane; ++i) {
        const auto colour =
            turned(picture.values[i], picture.values[plane + i], picture.values[2 * plane + i], by);
        for (std::size_t channel = 0; channel < 3; ++channel)
          expected[channel * plane + i] = colour[channel];
      }
      EXPECT_EQ(run<std::uint8_t>(jitter, picture.sample()), expected) << hue;
    }
  });
}

TEST(AUTOTUNED_KERNELS, PointWise) {
  const auto operation = [](const Transform& transform) {
    auto made = PointOperation::create(transform, 3);
    EXPECT_TRUE(made);
    return std::move(*made);
  };
  const PointOperation to_float = operation({"to_float"});
  const PointOperation scale = operation({"scale", {{"by", "1/255"}}});
  const PointOperation normalize =
      operation({"normalize", {{"mean", {0.485, 0.456, 0.406}}, {"std", {0.229, 0.224, 0.225}}}});
  for (std::size_t count = 1; count <= kMaxWidth; ++count) {
    const auto floats = floats_of(count, count);
    const auto expect = [&](const PointOperation& one, auto scalar) {
      auto values = floats;
      one.apply(values.data(), count, 1);
      auto expected = floats;
      for (float& value : expected)
        value = scalar(value);
      EXPECT_TRUE(is_same(values, expected)) << count;
    };
    expect(to_float, [](float value) { return value / 255.0F; });
    expect(scale, [](float value) {
      return static_cast<float>(static_cast<double>(value) * (1.0 / 255));
    });
    expect(normalize, [](float value) {
      return (value - static_cast<float>(0.456)) / static_cast<float>(0.224);
    });
  }
}

TEST(AUTOTUNED_KERNELS, WeightedRows) {
  for (std::size_t width = 1; width <= kMaxWidth; ++width) {
    for (std::size_t count = 1; count <= 9; ++count) {
      const auto rows = bytes_of(count * width, width * 10 + count);
      // Together 1.
      std::vector<std::uint32_t> weights(count);
      std::uint32_t left = std::uint32_t{1} << kWeightBits;
      for (std::size_t k = 0; k < count; ++k) {
        weights[k] =
            k + 1 == count ? left : static_cast<std::uint32_t>(below(mix64(width + k), left));
        left -= weights[k];
      }
      RowWeights axis;
      axis.reset(1, count);
      axis.set(0, 0, weights);
      std::vector<std::uint8_t> result(width);
      axis.weigh(0, rows.data(), width, result.data());
      for (std::size_t x = 0; x < width; ++x) {
        std::uint64_t sum = std::uint64_t{1} << (kWeightBits - 1);
        for (std::size_t k = 0; k < count; ++k)
          sum += std::uint64_t{rows[k * width + x]} * weights[k];
        ASSERT_EQ(result[x], std::min<std::uint64_t>(sum >> kWeightBits, 255))
            << width << " columns, " << count << " weights";
      }
    }
  }
}

}  // namespace
}  // namespace autotuned::input
