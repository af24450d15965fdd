// SPDX-License-Identifier: Apache-2.0
// The ways in which the transforms of a recipe can run.
#pragma once

#include <compare>
#include <string_view>

#include "base/configuration.hpp"
#include "trainer/input/pixels/mask.hpp"

namespace autotuned::input {

// How the pixel-wise transforms at the end run.
enum class PointOps {
  per_sample,  // one after the other over a sample; a table replaces the last ones
  fused,       // a few rows at a time through all of them, straight into the batch
  per_batch,   // one after the other over the whole batch, in one thread, once it is assembled
  device,      // on the device after the transfer, from the first that makes floats on
};

// The form in which a cache keeps samples.
enum class CacheKind {
  none,
  raw,      // stored bytes
  decoded,  // the decoded picture
  prefix,   // the sample right before the first random transform
};

enum class CachePlace { memory, file };

// The order of the transforms and the way in which they run. The output is the same bit for bit, except with
// decode_scale.
struct PipelineForm {
  bool crops_first = false;  // crops run as early as the other transforms permit
  bool decodes_crop =
      false;  // the same, and a crop that then follows a decoder is made by the decoder, unless
              // the whole picture is kept
  PointOps point_ops = PointOps::per_sample;
  CacheKind cache = CacheKind::none;
  bool indexes_jpegs = false;                   // an index is used if parts of pictures are decoded
  CachePlace cache_place = CachePlace::memory;  // not used by the pipeline itself
  int decode_scale = 1;  // Shrink::most of pictures before a resize: 1, 2, 4 or 8
  Dilation dilation = Dilation::convolution;  // of masks

  friend auto operator<=>(const PipelineForm&, const PipelineForm&) = default;
};

// The form that a configuration asks for, by the knobs input.order, input.decode, input.decode_scale, input.point_ops,
// input.cache, input.jpeg_index and input.dilation. REQUIRES: all of them, in their domains.
[[nodiscard]] PipelineForm pipeline_form_of(const Configuration& configuration);

// The name in the knob input.decode_scale: "full", "half". REQUIRES: 1, 2, 4 or 8.
[[nodiscard]] std::string_view decode_scale_name(int scale);

}  // namespace autotuned::input
