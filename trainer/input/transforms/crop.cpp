// SPDX-License-Identifier: Apache-2.0
// The common part of all cuts, and random_crop and center_crop, which keep a part of the picture unchanged.
#include <cmath>
#include <cstring>

#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

std::string pixels(int height, int width) {
  return std::to_string(height) + " x " + std::to_string(width) + " pixels";
}

class CropStage final : public CutStage {
 public:
  CropStage(Size size, bool is_random, const SampleType& input)
      : size_(size), is_random_(is_random), channels_(input.channels), element_(input.element) {}

  SampleType output() const override {
    return type_of(element_, {channels_, size_.height, size_.width});
  }

  Result<Window> window(const SampleShape& from, const RandomStream& draws) const override {
    if (from.height < size_.height || from.width < size_.width) {
      return fail(ErrorKind::invalid,
                  "the picture has " + pixels(from.height, from.width) +
                      ", too few for a crop of " + pixels(size_.height, size_.width),
                  {}, "remove it, or use a smaller crop");
    }
    return Window{offset(from.height - size_.height, draws, 0),
                  offset(from.width - size_.width, draws, 1), size_.height, size_.width};
  }

 private:
  // One of `room` + 1 possible offsets. The centre is rounded half to even, as torchvision does.
  int offset(int room, const RandomStream& draws, std::uint64_t draw) const {
    if (!is_random_) return static_cast<int>(std::nearbyint(room / 2.0));
    return static_cast<int>(below(draws.at(draw), static_cast<std::uint64_t>(room) + 1));
  }

  Size size_;
  bool is_random_;
  int channels_;
  Element element_;
};

// A copy of a part. REQUIRES: the part lies within the picture.
Sample cut_out(const Sample& sample, const Window& part, OutputBuffer& room) {
  const SampleShape& from = sample.shape;
  const std::size_t element_bytes = bytes_of(sample.element);
  const auto top = static_cast<std::size_t>(part.top);
  const auto left = static_cast<std::size_t>(part.left);
  std::uint8_t* to = nullptr;
  const Sample result = room.take(sample.element, {from.channels, part.height, part.width}, to);
  const std::size_t row_bytes = static_cast<std::size_t>(part.width) * element_bytes;
  const std::size_t stride = static_cast<std::size_t>(from.width) * element_bytes;
  for (int channel = 0; channel < from.channels; ++channel) {
    const std::size_t first_row =
        static_cast<std::size_t>(channel) * static_cast<std::size_t>(from.height) + top;
    const std::uint8_t* row = sample.bytes.data() + first_row * stride + left * element_bytes;
    for (int y = 0; y < part.height; ++y, row += stride, to += row_bytes)
      std::memcpy(to, row, row_bytes);
  }
  return result;
}

MadeStage make_crop(const Transform& transform, const SampleType& input, bool is_random) {
  const auto size = size_parameter(transform);
  if (!size) return tl::unexpected(size.error());
  if (input.height.least < size->height || input.width.least < size->width) {
    const bool is_one_size = input.has_one_shape();
    return fail(ErrorKind::invalid,
                "a crop of " + pixels(size->height, size->width) +
                    " does not fit into pictures of " + (is_one_size ? "" : "as little as ") +
                    pixels(input.height.least, input.width.least),
                {}, "use a smaller crop, or resize first");
  }
  return std::make_unique<CropStage>(*size, is_random, input);
}

}  // namespace

Result<Sample> CutStage::apply(const Sample& sample, const RandomStream& draws,
                               StageMemory* /*memory*/, OutputBuffer& room) const {
  const auto kept = window(sample.shape, draws);
  if (!kept) return tl::unexpected(kept.error());
  return cut_out(sample, *kept, room);
}

MadeStage make_random_crop(const Transform& transform, const SampleType& input) {
  return make_crop(transform, input, true);
}

MadeStage make_center_crop(const Transform& transform, const SampleType& input) {
  return make_crop(transform, input, false);
}

}  // namespace autotuned::input
