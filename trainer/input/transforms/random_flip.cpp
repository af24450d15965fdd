// SPDX-License-Identifier: Apache-2.0
// random_flip: left and right exchanged, by chance.
#include <algorithm>
#include <cstddef>

#include "trainer/input/pixels/vector_code.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

// Twice the same loop: code for several processors cannot be a template.
AUTOTUNED_VECTOR_CODE void flip_row(const std::uint8_t* __restrict from, std::size_t width,
                                    std::uint8_t* __restrict to) {
  for (std::size_t x = 0; x < width; ++x)
    to[x] = from[width - 1 - x];
}

AUTOTUNED_VECTOR_CODE void flip_row(const float* __restrict from, std::size_t width,
                                    float* __restrict to) {
  for (std::size_t x = 0; x < width; ++x)
    to[x] = from[width - 1 - x];
}

class FlipStage final : public MirrorStage {
 public:
  FlipStage(double probability, const SampleType& type) : probability_(probability), type_(type) {}

  SampleType output() const override { return type_; }
  double probability() const override { return probability_; }

  Result<Sample> apply(const Sample& sample, const RandomStream& draws, StageMemory* /*memory*/,
                       OutputBuffer& room) const override {
    std::uint8_t* to = nullptr;
    const Sample result = room.take(sample.element, sample.shape, to);
    if (!is_mirroring(probability_, draws)) {
      std::ranges::copy(sample.bytes, to);
    } else if (sample.element == Element::uint8) {
      flip(sample.bytes.data(), sample.shape, to);
    } else {
      flip(sample.floats(), sample.shape, reinterpret_cast<float*>(to));
    }
    return result;
  }

 private:
  template <class T>
  static void flip(const T* from, const SampleShape& shape, T* to) {
    const auto width = static_cast<std::size_t>(shape.width);
    const int rows = shape.channels * shape.height;
    for (int row = 0; row < rows; ++row, from += width, to += width)
      flip_row(from, width, to);
  }

  double probability_;
  SampleType type_;
};

}  // namespace

MadeStage make_random_flip(const Transform& transform, const SampleType& input) {
  const Json& given = member(transform.parameters, "probability");
  const auto probability = given.is_null() ? 0.5 : number_of(given);
  if (!probability || *probability < 0 || *probability > 1) {
    return bad_parameter(transform, "probability", "is not a number from 0 to 1",
                         "give a share such as 0.5");
  }
  return std::make_unique<FlipStage>(*probability, input);
}

}  // namespace autotuned::input
