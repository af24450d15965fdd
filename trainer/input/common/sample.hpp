// SPDX-License-Identifier: Apache-2.0
// The types of samples and targets, from storage to the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace autotuned::input {

struct SampleShape {
  int channels = 1;
  int height = 1;
  int width = 1;

  [[nodiscard]] std::int64_t elements() const { return std::int64_t{channels} * height * width; }
  friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

// Channels of a picture in colour.
inline constexpr int kRgb = 3;

// The most pixels of a picture file. PIL refuses larger ones as an attack.
inline constexpr std::int64_t kMaxPixels = 178'956'970;

enum class Element {
  encoded,  // a picture file's bytes
  uint8,    // 0 .. 255, in the order channel, row, column
  float32,  // in the same order
  token,    // int32: numbers of tokens of a text, in its order, and no picture
};

[[nodiscard]] constexpr const char* name_of(Element element) {
  if (element == Element::encoded) return "picture_file";
  if (element == Element::token) return "token";
  return element == Element::float32 ? "float32" : "uint8";
}

[[nodiscard]] constexpr std::size_t bytes_of(Element element) {
  if (element == Element::token) return sizeof(std::int32_t);
  return element == Element::float32 ? sizeof(float) : 1;
}

// A range of sizes, in pixels.
struct Extent {
  int least = 1;
  int most = 1;

  [[nodiscard]] bool is_fixed() const { return least == most; }
  [[nodiscard]] bool contains(int size) const { return least <= size && size <= most; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// What is known about all samples before any is read. The shape of an encoded sample is that of its decoded picture.
struct SampleType {
  Element element = Element::uint8;
  int channels = 1;
  Extent height;
  Extent width;
  // False: only some samples have been examined, so others may be smaller or larger.
  bool is_complete = true;
  // Encoded samples only: other samples replace those that cannot be decoded (on_error: skip). Which samples these
  // are must not depend on how much of a picture is decoded.
  bool skips_damaged = false;

  [[nodiscard]] bool has_one_shape() const {
    return is_complete && height.is_fixed() && width.is_fixed();
  }
  // REQUIRES: has_one_shape().
  [[nodiscard]] SampleShape shape() const { return {channels, height.least, width.least}; }
  friend bool operator==(const SampleType&, const SampleType&) = default;
  // "3 x 533 x 800", "3 x 100 to 200 x 50".
  [[nodiscard]] std::string text() const;
};

// The type of samples that all have this shape.
[[nodiscard]] constexpr SampleType type_of(Element element, SampleShape shape) {
  return {element, shape.channels, {shape.height, shape.height}, {shape.width, shape.width}, true};
}

// The kind of target: what the model should give for a sample. It is the same for all samples of a data set.
enum class TargetKind {
  class_number,  // int64, from 0 to the number of classes - 1
  numbers,       // float32, finite
  tags,          // float32, each 0 or 1: the sample has the tag, or does not
  class_mask,    // uint8 (rows, columns) of the image: the class of each pixel, or kNoClass
  next_tokens,   // of each token the one that follows: the sample itself holds them
};

// The class of pixels in a class mask that do not count.
inline constexpr std::uint8_t kNoClass = 255;
inline constexpr int kMaxMaskClasses = 255;

struct TargetType {
  TargetKind kind = TargetKind::class_number;
  // Values of a sample; 1 with classes and class masks. With tokens: how many the model sees, one less than the sample
  // has.
  int width = 1;

  [[nodiscard]] bool is_class() const { return kind == TargetKind::class_number; }
  [[nodiscard]] bool is_mask() const { return kind == TargetKind::class_mask; }
  [[nodiscard]] bool has_tokens() const { return kind == TargetKind::next_tokens; }
  // Floats of a sample in a batch; 0 with classes and class masks, which are integers, and with tokens.
  [[nodiscard]] std::size_t floats() const {
    return is_class() || is_mask() || has_tokens() ? 0 : static_cast<std::size_t>(width);
  }
  // The bytes of a target in a batch of images of that shape. With tokens: those of a label that is not used.
  [[nodiscard]] std::size_t bytes(const SampleShape& image = {}) const {
    if (is_mask()) {
      return static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
    }
    return floats() == 0 ? sizeof(std::int64_t) : floats() * sizeof(float);
  }
  friend bool operator==(const TargetType&, const TargetType&) = default;
};

// A part of a picture, in pixels.
struct Window {
  int top = 0;
  int left = 0;
  int height = 1;
  int width = 1;
};

// What happens to the rest of a file if only a part of its picture is decoded.
enum class Remainder {
  left,    // it is not read: damage in it is not noticed
  checked  // it is read: the file counts as damaged if the whole picture could not be decoded
};

// Size and modification time of a file, to notice changes.
struct FileStamp {
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;  // since 1970

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

class JpegIndex;

// The origin of an encoded sample.
struct SampleOrigin {
  FileStamp stamp;
  std::int64_t item = 0;       // Dataset::stored_index()
  JpegIndex* index = nullptr;  // of JPEG files; null: none is used
};

class PngDecoder;

// Memory for the class mask of one sample, kept by a thread between samples.
struct MaskRoom {
  std::vector<std::uint8_t> classes;  // the mask
  std::vector<std::uint8_t> file;
  std::shared_ptr<PngDecoder> decoder;  // null: none was needed yet
};

// One sample between two transforms. Does not own its bytes.
struct Sample {
  Element element = Element::uint8;
  SampleShape shape;                    // not for encoded samples
  std::span<const std::uint8_t> bytes;  // aligned for floats if it holds floats
  SampleOrigin origin = {};             // of encoded samples

  [[nodiscard]] const float* floats() const { return reinterpret_cast<const float*>(bytes.data()); }
};

}  // namespace autotuned::input
