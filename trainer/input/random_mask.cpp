// SPDX-License-Identifier: Apache-2.0
// random_mask: cells drawn by chance, the same for all channels, become 0.
#include <cmath>
#include <cstddef>
#include <cstring>

#include "trainer/input/mask.hpp"
#include "trainer/input/transform_types.hpp"

namespace autotuned::input {
namespace {

struct MaskMemory final : StageMemory {
  Mask mask;
};

// One channel, whose bytes or floats are all zero where no bit is set.
template <class Bits>
void clear_masked(const Mask& mask, const std::uint8_t* from, std::uint8_t* to) {
  const auto width = static_cast<std::size_t>(mask.width());
  for (int row = 0; row < mask.height(); ++row) {
    const std::uint64_t* const words = mask.row_of(row);
    for (std::size_t x = 0; x < width; ++x, from += sizeof(Bits), to += sizeof(Bits)) {
      const auto keep = static_cast<Bits>((words[x / 64] >> (x % 64) & 1U) - 1U);
      Bits value = 0;
      std::memcpy(&value, from, sizeof value);
      value = static_cast<Bits>(value & keep);
      std::memcpy(to, &value, sizeof value);
    }
  }
}

class RandomMaskStage final : public Stage {
 public:
  RandomMaskStage(std::uint32_t parts, bool is_dilated, const SampleType& type)
      : parts_(parts), is_dilated_(is_dilated), type_(type) {}

  SampleType output() const override { return type_; }
  std::unique_ptr<StageMemory> make_memory() const override {
    return std::make_unique<MaskMemory>();
  }

  Result<Sample> apply(const Sample& sample, const RandomStream& draws, StageMemory* memory,
                       SampleRoom& room) const override {
    Mask& mask = static_cast<MaskMemory*>(memory)->mask;
    mask.reshape(sample.shape.height, sample.shape.width);
    mask.draw(parts_, draws);
    if (is_dilated_) mask.dilate();
    std::uint8_t* to = nullptr;
    const Sample result = room.take(sample.element, sample.shape, to);
    const std::size_t channel_bytes =
        sample.bytes.size() / static_cast<std::size_t>(sample.shape.channels);
    for (std::size_t at = 0; at < sample.bytes.size(); at += channel_bytes) {
      if (sample.element == Element::uint8) {
        clear_masked<std::uint8_t>(mask, sample.bytes.data() + at, to + at);
      } else {
        clear_masked<std::uint32_t>(mask, sample.bytes.data() + at, to + at);
      }
    }
    return result;
  }

 private:
  std::uint32_t parts_;
  bool is_dilated_;
  SampleType type_;
};

}  // namespace

MadeStage make_random_mask(const Transform& transform, const SampleType& input) {
  const auto ratio = number_of(member(transform.parameters, "ratio"));
  if (!ratio || *ratio < 0 || *ratio > 1) {
    return bad_parameter(transform, "ratio", "is not a number from 0 to 1",
                         "give a share such as 0.25");
  }
  const Json& dilate = member(transform.parameters, "dilate");
  const bool is_dilated = dilate == "4-neighbour";
  if (!is_dilated && !dilate.is_null() && dilate != "none") {
    return bad_parameter(transform, "dilate", "is not a way to dilate", "use none or 4-neighbour");
  }
  constexpr double kWhole = 65'536;
  return std::make_unique<RandomMaskStage>(static_cast<std::uint32_t>(std::lround(*ratio * kWhole)),
                                           is_dilated, input);
}

}  // namespace autotuned::input
