// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/picture_decoder.hpp"
#include "trainer/input/jpeg_index/jpeg_part_decoder.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

// The part in a picture that is 1/by as large: all pixels that overlap it.
Window shrunk(const Window& part, int by) {
  const auto up = [by](int at) { return (at + by - 1) / by; };
  Window smaller{.top = part.top / by, .left = part.left / by};
  smaller.height = up(part.top + part.height) - smaller.top;
  smaller.width = up(part.left + part.width) - smaller.left;
  return smaller;
}

// `Decoder` is a JpegDecoder or a PictureDecoder.
template <typename Decoder>
class DecodeStage final : public PartStage {
  struct Memory final : StageMemory {
    Decoder decoder;
    JpegPartDecoder indexed;
  };

 public:
  explicit DecodeStage(const SampleType& input)
      : output_(input), remainder_(input.skips_damaged ? Remainder::checked : Remainder::left) {
    output_.element = Element::uint8;
    output_.skips_damaged = false;
  }

  SampleType output() const override { return output_; }
  std::unique_ptr<StageMemory> make_memory() const override { return std::make_unique<Memory>(); }
  void shrink(const Shrink& shrink) override { shrink_ = shrink; }

  Result<Sample> apply(const Sample& sample, const RandomStream& /*draws*/, StageMemory* memory,
                       OutputBuffer& room) const override {
    Decoder& decoder = static_cast<Memory*>(memory)->decoder;
    auto shape = begin(decoder, sample);
    if (!shape) return tl::unexpected(shape.error());
    const int by = scale_of(decoder, shape->height, shape->width);
    if (by > 1) shape = decoder.shrink(by);
    std::uint8_t* bytes = nullptr;
    const Sample picture = room.take(Element::uint8, *shape, bytes);
    auto decoded = decoder.decode(bytes);
    if (!decoded) return tl::unexpected(std::move(decoded.error()));
    return picture;
  }

  Result<Sample> apply_part(const Sample& sample, const CutStage& cut,
                            const RandomStream& cut_draws, StageMemory* memory,
                            OutputBuffer& room) const override {
    auto& [decoder, indexed] = *static_cast<Memory*>(memory);
    const auto known = indexed.begin(sample);
    const auto shape = known ? checked(*known) : begin(decoder, sample);
    if (!shape) return tl::unexpected(shape.error());
    auto part = cut.window(*shape, cut_draws);
    if (!part) return tl::unexpected(part.error());
    const int by = known ? 1 : scale_of(decoder, part->height, part->width);
    if (by > 1) {
      decoder.shrink(by);
      part = shrunk(*part, by);
    }
    std::uint8_t* bytes = nullptr;
    const Sample picture =
        room.take(Element::uint8, {shape->channels, part->height, part->width}, bytes);
    if (known) {
      if (indexed.decode(*part, bytes)) return picture;
      if (const auto begun = decoder.begin(sample.bytes); !begun) {
        return tl::unexpected(begun.error());
      }
    }
    auto decoded = decoder.decode_part(*part, bytes, remainder_);
    if (!decoded) return tl::unexpected(std::move(decoded.error()));
    indexed.index(sample);
    return picture;
  }

  void index(const Sample& sample, StageMemory* memory) const override {
    static_cast<Memory*>(memory)->indexed.index(sample);
  }

 private:
  Result<SampleShape> begin(Decoder& decoder, const Sample& sample) const {
    const auto shape = decoder.begin(sample.bytes);
    return shape ? checked(*shape) : shape;
  }

  int scale_of(const Decoder& decoder, int height, int width) const {
    return decoder.can_shrink() ? shrink_.of(height, width) : 1;
  }

  Result<SampleShape> checked(const SampleShape& shape) const {
    if (output_.is_complete &&
        !(output_.height.contains(shape.height) && output_.width.contains(shape.width))) {
      return fail(ErrorKind::invalid,
                  "has " + std::to_string(shape.height) + " x " + std::to_string(shape.width) +
                      " pixels, which it had not when training began",
                  {}, "do not change the data during training");
    }
    return shape;
  }

  SampleType output_;
  Remainder remainder_;  // of a file, where a part of its picture is asked for
  Shrink shrink_;
};

}  // namespace

MadeStage make_decode(const Transform& /*transform*/, const SampleType& input) {
  return std::make_unique<DecodeStage<PictureDecoder>>(input);
}

MadeStage make_decode_jpeg(const Transform& /*transform*/, const SampleType& input) {
  return std::make_unique<DecodeStage<JpegDecoder>>(input);
}

}  // namespace autotuned::input
