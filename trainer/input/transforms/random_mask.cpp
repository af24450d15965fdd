// SPDX-License-Identifier: Apache-2.0
// random_mask: cells drawn by chance, the same for all channels, become 0.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "trainer/input/pixels/mask.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

struct MaskMemory final : StageMemory {
  Mask mask;
};

// For eight cells, whose bits are a byte, the bytes that keep what is not set.
constexpr std::array<std::array<std::uint8_t, 8>, 256> kKeep = [] {
  std::array<std::array<std::uint8_t, 8>, 256> keep{};
  for (std::size_t bits = 0; bits < keep.size(); ++bits) {
    for (std::size_t i = 0; i < 8; ++i)
      keep[bits][i] = (bits >> i & 1U) != 0 ? 0x00 : 0xff;
  }
  return keep;
}();

// Processes one row of a channel. Floats are handled as bits: all bits zero is 0.
template <class Bits>
void clear_masked(const std::uint64_t* words, std::size_t width, const Bits* from, Bits* to) {
  const auto keep_at = [&](std::size_t x) -> const std::array<std::uint8_t, 8>& {
    return kKeep[words[x / 64] >> (x % 64) & 0xffU];
  };
  const auto clear = [&](std::size_t x, std::uint8_t keep) {
    // 0xff becomes all ones, whatever the width.
    to[x] = static_cast<Bits>(from[x] & static_cast<Bits>(static_cast<std::int8_t>(keep)));
  };
  std::size_t x = 0;
  for (; x + 8 <= width; x += 8) {
    const auto& keep = keep_at(x);
    if constexpr (sizeof(Bits) == 1) {  // all eight at once
      std::uint64_t eight = 0;
      std::uint64_t kept = 0;
      std::memcpy(&eight, from + x, sizeof eight);
      std::memcpy(&kept, keep.data(), sizeof kept);
      eight &= kept;
      std::memcpy(to + x, &eight, sizeof eight);
    } else {
      for (std::size_t i = 0; i < 8; ++i)
        clear(x + i, keep[i]);
    }
  }
  for (; x < width; ++x)
    clear(x, keep_at(x / 8 * 8)[x % 8]);
}

class RandomMaskStage final : public PixelStage {
 public:
  RandomMaskStage(std::uint32_t parts, bool is_dilated, const SampleType& type)
      : parts_(parts), is_dilated_(is_dilated), type_(type) {}

  SampleType output() const override { return type_; }
  bool dilates() const override { return is_dilated_; }
  void set_dilation(Dilation how) override { dilation_ = how; }
  std::unique_ptr<StageMemory> make_memory() const override {
    return std::make_unique<MaskMemory>();
  }

  void begin_sample(const SampleShape& shape, const RandomStream& draws,
                    StageMemory* memory) const override {
    Mask& mask = static_cast<MaskMemory*>(memory)->mask;
    mask.reshape(shape.height, shape.width);
    mask.draw(parts_, draws);
    if (is_dilated_) mask.dilate(dilation_);
  }

  void apply_rows(const PixelRows& rows, const StageMemory* memory) const override {
    const Mask& mask = static_cast<const MaskMemory*>(memory)->mask;
    if (rows.from_element == Element::uint8) {
      clear<std::uint8_t>(mask, rows);
    } else {
      clear<std::uint32_t>(mask, rows);
    }
  }

 private:
  template <class Bits>
  static void clear(const Mask& mask, const PixelRows& rows) {
    const auto width = static_cast<std::size_t>(rows.width);
    for (int channel = 0; channel < rows.channels; ++channel) {
      const Bits* from = rows.from_channel<Bits>(channel);
      Bits* to = rows.to_channel<Bits>(channel);
      for (int row = 0; row < rows.rows; ++row, from += width, to += width)
        clear_masked(mask.row_of(rows.first_row + row), width, from, to);
    }
  }

  std::uint32_t parts_;
  bool is_dilated_;
  Dilation dilation_ = Dilation::convolution;
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
    return bad_parameter(transform, "dilate", "is not a kind of dilation",
                         "use none or 4-neighbour");
  }
  constexpr double kWhole = 65'536;
  return std::make_unique<RandomMaskStage>(static_cast<std::uint32_t>(std::lround(*ratio * kWhole)),
                                           is_dilated, input);
}

}  // namespace autotuned::input
