// SPDX-License-Identifier: Apache-2.0
// Colour and brightness apart: the full-range matrix of JPEG, on the scale 0 to 255, without rounding.
#include <array>
#include <cstddef>
#include <cstdint>

#include "trainer/input/pixels/vector_code.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

struct YuvRow {
  std::array<float, kRgb> weight;
  float offset;
};
constexpr std::array<YuvRow, kRgb> kMatrix = {{{{0.299F, 0.587F, 0.114F}, 0.0F},
                                               {{-0.16874F, -0.33126F, 0.5F}, 128.0F},
                                               {{0.5F, -0.41869F, -0.08131F}, 128.0F}}};

// Adds from left to right and rounds each step; a matrix product that fuses multiplication and addition may differ in
// the last bits.
template <class T>
float weighted(const YuvRow& row, T red, T green, T blue) {
  return row.weight[0] * static_cast<float>(red) + row.weight[1] * static_cast<float>(green) +
         row.weight[2] * static_cast<float>(blue) + row.offset;
}

// Twice the same loop: code for several processors cannot be a template.
AUTOTUNED_VECTOR_CODE void convert_bytes(const std::uint8_t* __restrict red,
                                         const std::uint8_t* __restrict green,
                                         const std::uint8_t* __restrict blue, std::size_t count,
                                         float* __restrict y, float* __restrict u,
                                         float* __restrict v) {
  for (std::size_t i = 0; i < count; ++i) {
    y[i] = weighted(kMatrix[0], red[i], green[i], blue[i]);
    u[i] = weighted(kMatrix[1], red[i], green[i], blue[i]);
    v[i] = weighted(kMatrix[2], red[i], green[i], blue[i]);
  }
}

AUTOTUNED_VECTOR_CODE void convert_floats(const float* __restrict red,
                                          const float* __restrict green,
                                          const float* __restrict blue, std::size_t count,
                                          float* __restrict y, float* __restrict u,
                                          float* __restrict v) {
  for (std::size_t i = 0; i < count; ++i) {
    y[i] = weighted(kMatrix[0], red[i], green[i], blue[i]);
    u[i] = weighted(kMatrix[1], red[i], green[i], blue[i]);
    v[i] = weighted(kMatrix[2], red[i], green[i], blue[i]);
  }
}

template <class T, class Convert>
void convert(const PixelRows& rows, Convert convert_pixels) {
  convert_pixels(rows.from_channel<T>(0), rows.from_channel<T>(1), rows.from_channel<T>(2),
                 rows.count(), rows.to_channel<float>(0), rows.to_channel<float>(1),
                 rows.to_channel<float>(2));
}

class RgbToYuvStage final : public PixelStage {
 public:
  explicit RgbToYuvStage(SampleType output) : output_(output) {}

  SampleType output() const override { return output_; }
  std::optional<PixelFormula> formula() const override {
    PixelFormula formula{.kind = PixelFormula::Kind::matrix, .channels = kRgb};
    for (const YuvRow& row : kMatrix) {
      formula.weights.insert(formula.weights.end(), row.weight.begin(), row.weight.end());
      formula.offsets.push_back(row.offset);
    }
    return formula;
  }

  void apply_rows(const PixelRows& rows, const StageMemory* /*memory*/) const override {
    if (rows.from_element == Element::uint8) {
      convert<std::uint8_t>(rows, convert_bytes);
    } else {
      convert<float>(rows, convert_floats);
    }
  }

 private:
  SampleType output_;
};

}  // namespace

MadeStage make_rgb_to_yuv(const Transform& /*transform*/, const SampleType& input) {
  if (input.channels != kRgb) {
    return fail(ErrorKind::invalid,
                "needs red, green and blue, but the samples have " +
                    std::to_string(input.channels) + " channels",
                {}, "remove rgb_to_yuv");
  }
  SampleType output = input;
  output.element = Element::float32;
  return std::make_unique<RgbToYuvStage>(output);
}

}  // namespace autotuned::input
