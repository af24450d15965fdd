// SPDX-License-Identifier: Apache-2.0
// Transforms of samples: their properties (TransformKind) and their work (Stage).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "trainer/input/common/random.hpp"
#include "trainer/input/common/sample.hpp"
#include "trainer/input/pixels/pixel_formula.hpp"

namespace autotuned::input {

enum class Dilation;

// A per-sample transform as the recipe names it.
struct Transform {
  std::string type;
  Json parameters = Json::object();
};

// The memory into which a stage writes: its own, which grows, or a place in a batch.
class OutputBuffer {
 public:
  // From now on take() gives `memory`; null: its own memory.
  void write_to(void* memory) { target_ = memory; }
  // Memory for a sample. REQUIRES: the memory of write_to() has at least `bytes`.
  [[nodiscard]] std::uint8_t* take(std::size_t bytes) {
    if (target_ != nullptr) return static_cast<std::uint8_t*>(target_);
    if (own_.size() < bytes) own_.resize(bytes);
    return own_.data();
  }
  // The same as a sample of this shape, whose bytes are not yet written.
  [[nodiscard]] Sample take(Element element, SampleShape shape, std::uint8_t*& bytes) {
    const std::size_t size = static_cast<std::size_t>(shape.elements()) * bytes_of(element);
    bytes = take(size);
    return {element, shape, {bytes, size}};
  }

 private:
  void* target_ = nullptr;
  std::vector<std::uint8_t> own_;
};

// The memory that a thread keeps for a stage between samples.
class StageMemory {
 public:
  StageMemory() = default;
  StageMemory(const StageMemory&) = delete;
  StageMemory& operator=(const StageMemory&) = delete;
  virtual ~StageMemory() = default;
};

// A transform with its parameters, for samples of one type. Const: any number of threads at once, each with a
// StageMemory of its own.
class Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  [[nodiscard]] virtual SampleType output() const = 0;

  // Whether it dilates a mask. All kinds of dilation give the same result.
  [[nodiscard]] virtual bool dilates() const { return false; }
  // Call before the first sample.
  virtual void set_dilation(Dilation /*how*/) {}

  // Null: the stage needs none.
  [[nodiscard]] virtual std::unique_ptr<StageMemory> make_memory() const { return nullptr; }

  // Writes the transformed sample into `room` and returns it. `draws` is the random stream of this stage for this
  // sample. Errors may lack `where`: the caller adds the sample.
  [[nodiscard]] virtual Result<Sample> apply(const Sample& sample, const RandomStream& draws,
                                             StageMemory* memory, OutputBuffer& room) const = 0;
};

// A stage that keeps a part of the picture as it is.
class CutStage : public Stage {
 public:
  // The part of a picture of shape `from`; an error if the picture is too small. It depends only on the size of
  // the picture and the draws.
  [[nodiscard]] virtual Result<Window> window(const SampleShape& from,
                                              const RandomStream& draws) const = 0;

  [[nodiscard]] Result<Sample> apply(const Sample& sample, const RandomStream& draws,
                                     StageMemory* memory, OutputBuffer& room) const final;
};

// A stage that exchanges left and right with a probability, or leaves the picture as it is: is_mirroring().
class MirrorStage : public Stage {
 public:
  [[nodiscard]] virtual double probability() const = 0;
};

// The smallest scale at which a picture may be decoded before a resize.
struct Shrink {
  int most = 1;    // 1, 2, 4 or 8
  int height = 1;  // of the resized picture
  int width = 1;

  // The largest divisor that leaves both sides of a picture of that size at least as long as the resized ones.
  [[nodiscard]] int of(int from_height, int from_width) const {
    int by = most;
    while (by > 1 && (from_height / by < height || from_width / by < width))
      by /= 2;
    return by;
  }
};

// A stage that can make a part of a picture without making the rest.
class PartStage : public Stage {
 public:
  // From now on pictures are decoded at a smaller scale if their format allows it; the pixels differ from those of
  // a resize of the whole picture. output() and windows still count in pixels of the full scale. REQUIRES: no
  // thread uses the stage.
  virtual void shrink(const Shrink& /*shrink*/) {}

  // The same bytes as `cut` of the picture that apply() makes. At a smaller scale: all pixels that overlap the part,
  // of a picture as small as the size of the part allows.
  [[nodiscard]] virtual Result<Sample> apply_part(const Sample& sample, const CutStage& cut,
                                                  const RandomStream& cut_draws,
                                                  StageMemory* memory,
                                                  OutputBuffer& room) const = 0;
  // Adds the sample's file to the index of its origin, unless it is there, so that later parts are cheaper.
  virtual void index(const Sample& /*sample*/, StageMemory* /*memory*/) const {}
};

// Rows of a picture, as a pixel-wise stage reads and writes them. A stride is the number of elements from one
// channel to the next. `from` and `to` do not overlap.
struct PixelRows {
  int first_row = 0;
  int rows = 1;
  int width = 1;
  int channels = 1;
  Element from_element = Element::uint8;
  const void* from = nullptr;  // channel 0 of the first row
  std::size_t from_stride = 0;
  void* to = nullptr;
  std::size_t to_stride = 0;

  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  }
  template <class T>
  [[nodiscard]] const T* from_channel(int channel) const {
    return static_cast<const T*>(from) + static_cast<std::size_t>(channel) * from_stride;
  }
  template <class T>
  [[nodiscard]] T* to_channel(int channel) const {
    return static_cast<T*>(to) + static_cast<std::size_t>(channel) * to_stride;
  }
};

// A stage that keeps the shape and computes every pixel from the channels of that pixel alone, so it can process
// rows in any order. Cannot fail.
class PixelStage : public Stage {
 public:
  // Makes the random draws for a sample. Call before its first rows.
  virtual void begin_sample(const SampleShape& /*shape*/, const RandomStream& /*draws*/,
                            StageMemory* /*memory*/) const {}
  virtual void apply_rows(const PixelRows& rows, const StageMemory* memory) const = 0;
  // The stage as arithmetic on floats, with bytes converted to floats; nothing if it is more than arithmetic.
  [[nodiscard]] virtual std::optional<PixelFormula> formula() const { return std::nullopt; }

  [[nodiscard]] Result<Sample> apply(const Sample& sample, const RandomStream& draws,
                                     StageMemory* memory, OutputBuffer& room) const final;
};

enum class Draws {
  none,
  of_sample,  // a few for the whole picture; they may depend on its size
  of_pixels,  // one for every pixel, counted from the corner: a part of the picture would get other draws
};

// What a transform does to the positions of pixels.
enum class Geometry {
  keeps,    // all positions stay
  moves,    // keeps the size, and gives pixels other positions
  cuts,     // keeps a part of the picture: its stage is a CutStage
  mirrors,  // exchanges left and right at random: its stage is a MirrorStage
  resizes,  // makes one size, from all pixels
  scales  // makes a size that depends on the picture's, from all pixels: another scale, or a margin
};

// The properties of a transform that do not depend on its parameters. Its valid positions in a pipeline follow from
// these alone. Between transforms pixels lie in planes, channel by channel; only a batch may be arranged otherwise.
struct TransformKind {
  std::string_view name;
  // The types of samples that it accepts.
  bool takes_encoded = false;
  bool takes_uint8 = true;
  bool takes_float32 = true;
  Geometry geometry = Geometry::keeps;
  bool gives_parts = false;    // its stage is a PartStage
  bool is_pixel_wise = false;  // its stage is a PixelStage
  bool is_point_wise =
      false;  // each output number depends only on one input number and its channel
  Draws draws = Draws::none;
  // The transform that follows as a part of this one, with the same parameters; empty: none. So the code that moves
  // and joins transforms sees a transform of several steps as single steps.
  std::string_view then = {};
  // ErrorKind::invalid or unsupported, named by the parameter.
  Result<std::unique_ptr<Stage>> (*make)(const Transform& transform,
                                         const SampleType& input) = nullptr;
  // The same for a class mask of the picture, with the same draws: its stage needs no memory, and gives kNoClass to
  // pixels that come from outside. Null: the mask stays as it is if `geometry` keeps positions, or else cannot follow.
  Result<std::unique_ptr<Stage>> (*make_for_mask)(const Transform& transform,
                                                  const SampleType& input) = nullptr;
};

// Whether a cut right after `kind` gives the same pixels right before it; before a mirroring transform it takes the
// mirrored part.
[[nodiscard]] constexpr bool lets_cuts_pass(const TransformKind& kind) {
  return (kind.is_pixel_wise && kind.draws != Draws::of_pixels) ||
         kind.geometry == Geometry::mirrors;
}

// Null: unknown name.
[[nodiscard]] const TransformKind* find_transform(std::string_view name);
[[nodiscard]] std::string transform_names();  // "a, b, c"

}  // namespace autotuned::input
