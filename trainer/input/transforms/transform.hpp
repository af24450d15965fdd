// SPDX-License-Identifier: Apache-2.0
// One step on the way of a sample: what a transform says about itself, and what it does.
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
#include "trainer/input/transforms/pixel_formula.hpp"

namespace autotuned::input {

enum class Dilation;

// A per-sample transform as the recipe names it.
struct Transform {
  std::string type;
  Json parameters = Json::object();
};

// Where a stage writes: memory of its own that grows, or a place in a batch.
class SampleRoom {
 public:
  // The next take() gives `memory`, or its own if null.
  void lend(void* memory) { lent_ = memory; }
  // Room for a sample. REQUIRES: what was lent is as large.
  [[nodiscard]] std::uint8_t* take(std::size_t bytes) {
    if (lent_ != nullptr) return static_cast<std::uint8_t*>(lent_);
    if (own_.size() < bytes) own_.resize(bytes);
    return own_.data();
  }
  // The same as a sample of this shape, not yet written.
  [[nodiscard]] Sample take(Element element, SampleShape shape, std::uint8_t*& bytes) {
    const std::size_t size = static_cast<std::size_t>(shape.elements()) * bytes_of(element);
    bytes = take(size);
    return {element, shape, {bytes, size}};
  }

 private:
  void* lent_ = nullptr;
  std::vector<std::uint8_t> own_;
};

// What a thread keeps for a stage between samples.
class StageMemory {
 public:
  StageMemory() = default;
  StageMemory(const StageMemory&) = delete;
  StageMemory& operator=(const StageMemory&) = delete;
  virtual ~StageMemory() = default;
};

// A transform that has been given its parameters and the type of what it gets. Const: any number of
// threads at once, each with a memory of its own.
class Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  [[nodiscard]] virtual SampleType output() const = 0;

  // Whether it dilates something, in any of the ways and with the same result.
  [[nodiscard]] virtual bool dilates() const { return false; }
  // The way, before the first sample.
  virtual void set_dilation(Dilation /*how*/) {}

  // Null when it needs none.
  [[nodiscard]] virtual std::unique_ptr<StageMemory> make_memory() const { return nullptr; }

  // Gives what it wrote to `room`. `draws` is the stream of this stage for this sample. Errors need not
  // say where: the caller knows the sample.
  [[nodiscard]] virtual Result<Sample> apply(const Sample& sample, const RandomStream& draws,
                                             StageMemory* memory, SampleRoom& room) const = 0;
};

// A stage that keeps a part of the picture as it is.
class CutStage : public Stage {
 public:
  // Which part of a picture of that shape; an error where it does not hold one. Depends on the size of
  // the picture and the draws alone.
  [[nodiscard]] virtual Result<Window> window(const SampleShape& from,
                                              const RandomStream& draws) const = 0;
};

// A stage that exchanges left and right with a probability, or leaves the picture as it is: is_mirroring().
class MirrorStage : public Stage {
 public:
  [[nodiscard]] virtual double probability() const = 0;
};

// How small a picture may become while it is decoded, because a resize comes next.
struct Shrink {
  int most = 1;    // 1, 2, 4 or 8
  int height = 1;  // of what the resize makes
  int width = 1;

  // The most that leaves both sides of a picture of that size at least as long as they become.
  [[nodiscard]] int of(int from_height, int from_width) const {
    int by = most;
    while (by > 1 && (from_height / by < height || from_width / by < width))
      by /= 2;
    return by;
  }
};

// A stage that can make a part of its picture without the rest.
class PartStage : public Stage {
 public:
  // From now on its pictures are smaller, where their format allows that: other pixels than those of a resize
  // of the whole. output() and windows stay those of pictures in their own size. Not while it is used.
  virtual void shrink(const Shrink& /*shrink*/) {}

  // What `cut` would give of the picture that apply() gives, bit for bit. Of one that becomes smaller: all
  // pixels in which something of that part lies, of a picture that is made as small as the part allows.
  [[nodiscard]] virtual Result<Sample> apply_part(const Sample& sample, const CutStage& cut,
                                                  const RandomStream& cut_draws,
                                                  StageMemory* memory, SampleRoom& room) const = 0;
  // Puts into the index of the sample's origin what makes its parts cheaper from then on, unless it is there.
  virtual void index(const Sample& /*sample*/, StageMemory* /*memory*/) const {}
};

// Rows of a picture on their way through a pixel-wise stage. Between two channels lie a stride's
// elements; from and to do not overlap.
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

// A stage that keeps the shape and makes every pixel out of the channels of that pixel alone, so that
// it can work on any rows in any order. Cannot fail.
class PixelStage : public Stage {
 public:
  // Draws what is random about a sample. Before its first rows.
  virtual void begin_sample(const SampleShape& /*shape*/, const RandomStream& /*draws*/,
                            StageMemory* /*memory*/) const {}
  virtual void apply_rows(const PixelRows& rows, const StageMemory* memory) const = 0;
  // The same as arithmetic on floats, where it is no more than that; bytes are the floats of their values.
  [[nodiscard]] virtual std::optional<PixelFormula> formula() const { return std::nullopt; }

  [[nodiscard]] Result<Sample> apply(const Sample& sample, const RandomStream& draws,
                                     StageMemory* memory, SampleRoom& room) const final;
};

enum class Draws {
  none,
  of_sample,  // a few for the whole picture, which may depend on its size
  of_pixels,  // for every pixel, counted from the corner: a part of the picture would get others
};

// What becomes of the places of pixels.
enum class Geometry {
  keeps,    // each stays where it is
  cuts,     // those of a part stay, the others go: its stage is a CutStage
  mirrors,  // left and right are exchanged, or not: its stage is a MirrorStage
  resizes,  // one size, whatever it takes, of which every pixel may come from all of them
  scales    // the same to a size that depends on that of the picture
};

// What a transform needs and gives, whatever its parameters. Where it may stand and where it may be moved
// to follow from this alone. None says how pixels lie: from the decoder on in planes, channel by channel, and
// only a batch may be arranged otherwise.
struct TransformKind {
  std::string_view name;
  // What it takes; a refusal says why not in its own words.
  bool takes_encoded = false;
  bool takes_uint8 = true;
  bool takes_float32 = true;
  Geometry geometry = Geometry::keeps;
  bool gives_parts = false;    // its stage is a PartStage
  bool is_pixel_wise = false;  // its stage is a PixelStage
  bool is_point_wise = false;  // every number depends on its own byte or number and channel alone
  Draws draws = Draws::none;
  // The name of another that is a part of it and comes right behind it, with the same parameters; empty for
  // none. So a transform of several steps is seen step by step by those who move or join them.
  std::string_view then = {};
  // ErrorKind::invalid or unsupported, named by the parameter.
  Result<std::unique_ptr<Stage>> (*make)(const Transform& transform,
                                         const SampleType& input) = nullptr;
};

// Whether a cut right behind `kind` gives the same when it stands right before it: of what mirrors, the mirrored
// part.
[[nodiscard]] constexpr bool lets_cuts_pass(const TransformKind& kind) {
  return (kind.is_pixel_wise && kind.draws != Draws::of_pixels) ||
         kind.geometry == Geometry::mirrors;
}

// Null for a name that is not known.
[[nodiscard]] const TransformKind* find_transform(std::string_view name);
[[nodiscard]] std::string transform_names();  // "a, b, c"

}  // namespace autotuned::input
