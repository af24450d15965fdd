// SPDX-License-Identifier: Apache-2.0
// Colour and brightness apart: the full-range matrix of JPEG, on the scale 0 to 255, without rounding.
#include <array>
#include <cstddef>

#include "trainer/input/transform_types.hpp"

namespace autotuned::input {
namespace {

constexpr int kChannels = 3;

struct Row {
  std::array<float, kChannels> weight;
  float offset;
};
constexpr std::array<Row, kChannels> kMatrix = {{{{0.299F, 0.587F, 0.114F}, 0.0F},
                                                 {{-0.16874F, -0.33126F, 0.5F}, 128.0F},
                                                 {{0.5F, -0.41869F, -0.08131F}, 128.0F}}};

// From left to right, each step rounded: a matrix product that fuses multiplication and addition may
// differ in the last bits.
template <class T>
void convert(const T* rgb, std::size_t count, float* yuv) {
  const T* const red = rgb;
  const T* const green = rgb + count;
  const T* const blue = green + count;
  for (std::size_t row = 0; row < kMatrix.size(); ++row) {
    const auto [weight, offset] = kMatrix[row];
    float* const out = yuv + row * count;
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = weight[0] * static_cast<float>(red[i]) + weight[1] * static_cast<float>(green[i]) +
               weight[2] * static_cast<float>(blue[i]) + offset;
    }
  }
}

class RgbToYuvStage final : public Stage {
 public:
  explicit RgbToYuvStage(SampleType output) : output_(output) {}

  SampleType output() const override { return output_; }

  Result<Sample> apply(const Sample& sample, const RandomStream& /*draws*/, StageMemory* /*memory*/,
                       SampleRoom& room) const override {
    std::uint8_t* bytes = nullptr;
    const Sample result = room.take(Element::float32, sample.shape, bytes);
    auto* const yuv = reinterpret_cast<float*>(bytes);
    const std::size_t count = static_cast<std::size_t>(sample.shape.elements()) / kChannels;
    if (sample.element == Element::uint8) {
      convert(sample.bytes.data(), count, yuv);
    } else {
      convert(sample.floats(), count, yuv);
    }
    return result;
  }

 private:
  SampleType output_;
};

}  // namespace

MadeStage make_rgb_to_yuv(const Transform& /*transform*/, const SampleType& input) {
  if (input.channels != kChannels) {
    return fail(
        ErrorKind::invalid,
        "needs red, green and blue, but there are " + std::to_string(input.channels) + " channels",
        {}, "leave rgb_to_yuv out");
  }
  SampleType output = input;
  output.element = Element::float32;
  return std::make_unique<RgbToYuvStage>(output);
}

}  // namespace autotuned::input
