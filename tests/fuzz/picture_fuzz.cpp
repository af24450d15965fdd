// SPDX-License-Identifier: Apache-2.0
// JPEG and PNG files: whatever they hold, a part of the picture is refused where the whole is, and has its
// pixels otherwise.
#include <algorithm>
#include <vector>

#include "tests/fuzz/target.hpp"
#include "trainer/input/decode/picture_decoder.hpp"

namespace {

using namespace autotuned::input;

constexpr std::int64_t kMaxElements = 1 << 20;  // larger ones only take long

// Some part of the picture, as the bytes of the file will have it.
Window part_of(const SampleShape& shape, const std::uint8_t* data, std::size_t size) {
  std::uint64_t random = 0;
  for (std::size_t i = 0; i < size; ++i)
    random = random * 1'099'511'628'211U + data[i];
  const auto below = [&random](int bound) {
    random = random * 6'364'136'223'846'793'005U + 1;
    return static_cast<int>((random >> 33U) % static_cast<std::uint64_t>(bound));
  };
  Window part{.height = 1 + below(shape.height), .width = 1 + below(shape.width)};
  part.top = below(shape.height - part.height + 1);
  part.left = below(shape.width - part.width + 1);
  return part;
}

bool is_part(const std::vector<std::uint8_t>& whole, const SampleShape& shape, const Window& part,
             const std::vector<std::uint8_t>& pixels) {
  auto at = pixels.begin();
  for (int channel = 0; channel < shape.channels; ++channel) {
    for (int y = part.top; y < part.top + part.height; ++y, at += part.width) {
      const auto row = whole.begin() + (std::ptrdiff_t{channel} * shape.height + y) * shape.width;
      if (!std::equal(at, at + part.width, row + part.left)) return false;
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static PictureDecoder decoder;
  const auto shape = decoder.begin({data, size});
  if (!shape) {
    FUZZ_CHECK(!shape.error().what.empty());
    return 0;
  }
  FUZZ_CHECK(shape->channels == 3 && shape->height >= 1 && shape->width >= 1);
  if (shape->elements() > kMaxElements) return 0;
  std::vector<std::uint8_t> whole(static_cast<std::size_t>(shape->elements()));
  const bool is_whole = decoder.decode(whole.data()).has_value();

  const Window part = part_of(*shape, data, size);
  std::vector<std::uint8_t> pixels(
      static_cast<std::size_t>(shape->channels * part.height * part.width));
  FUZZ_CHECK(decoder.begin({data, size}));
  const bool is_read = decoder.decode_part(part, pixels.data(), Remainder::checked).has_value();
  FUZZ_CHECK(is_read == is_whole);
  FUZZ_CHECK(!is_whole || is_part(whole, *shape, part, pixels));
  // Seen or not, damage does no harm.
  FUZZ_CHECK(decoder.begin({data, size}));
  static_cast<void>(decoder.decode_part(part, pixels.data()).has_value());
  return 0;
}
