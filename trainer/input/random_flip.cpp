// SPDX-License-Identifier: Apache-2.0
// random_flip: left and right exchanged, by chance.
#include <algorithm>
#include <cstddef>

#include "trainer/input/transform_types.hpp"

namespace autotuned::input {
namespace {

class FlipStage final : public Stage {
 public:
  FlipStage(double probability, const SampleType& type) : probability_(probability), type_(type) {}

  SampleType output() const override { return type_; }

  Result<Sample> apply(const Sample& sample, const RandomStream& draws, StageMemory* /*memory*/,
                       SampleRoom& room) const override {
    std::uint8_t* to = nullptr;
    const Sample result = room.take(sample.element, sample.shape, to);
    if (!(Interval{0, 1}.at(draws.at(0)) < probability_)) {
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
    const std::ptrdiff_t width = shape.width;
    const std::ptrdiff_t rows = std::ptrdiff_t{shape.channels} * shape.height;
    for (std::ptrdiff_t row = 0; row < rows; ++row, from += width, to += width)
      std::reverse_copy(from, from + width, to);
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
