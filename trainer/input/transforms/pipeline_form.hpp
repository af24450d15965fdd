// SPDX-License-Identifier: Apache-2.0
// The ways in which the transforms of a recipe can run.
#pragma once

#include <compare>
#include <string_view>

#include "base/configuration.hpp"
#include "trainer/input/transforms/mask.hpp"

namespace autotuned::input {

// How the pixel-wise transforms at the end run.
enum class PointOps {
  per_sample,  // one after the other over a sample; of those that end in a table, one look into it
  fused,       // a few rows at a time through all of them, straight into the batch
  per_batch,   // one after the other over the whole batch, in one thread, once it is assembled
  device,      // from the first that makes floats on behind the transfer, by who asks for batches
};

// What is kept of a sample, to be made only once.
enum class CacheKind {
  none,
  raw,      // what is stored
  decoded,  // the picture out of a file
  prefix,   // what it is right before the first transform that draws
};

enum class CachePlace { memory, file };

// In which order and how the transforms run. What comes out is the same, bit for bit, but for decode_scale.
struct PipelineForm {
  bool crops_first = false;  // crops stand as far ahead as what their neighbours declare allows
  bool decodes_crop =
      false;  // the same, and a crop that then follows a decoder is made by it, unless
              // the whole picture is kept
  PointOps point_ops = PointOps::per_sample;
  CacheKind cache = CacheKind::none;
  bool indexes_jpegs =
      false;  // where parts of pictures are decoded, files are looked up in an index
  CachePlace cache_place = CachePlace::memory;  // of no meaning to the pipeline itself
  int decode_scale = 1;  // Shrink::most of pictures that a resize makes smaller: 1, 2, 4 or 8
  Dilation dilation = Dilation::convolution;  // of masks

  friend auto operator<=>(const PipelineForm&, const PipelineForm&) = default;
};

// By the knobs input.order, input.decode, input.decode_scale, input.point_ops, input.cache, input.jpeg_index and
// input.dilation. REQUIRES: all of them, in their domains.
[[nodiscard]] PipelineForm pipeline_form_of(const Configuration& configuration);

// What the knob input.decode_scale calls it: "full", "half". REQUIRES: 1, 2, 4 or 8.
[[nodiscard]] std::string_view decode_scale_name(int scale);

}  // namespace autotuned::input
