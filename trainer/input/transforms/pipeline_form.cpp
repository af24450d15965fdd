// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/pipeline_form.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace autotuned::input {
namespace {

struct DecodeScale {
  std::string_view name;
  int scale = 1;
};
constexpr std::array<DecodeScale, 4> kDecodeScales = {
    {{"full", 1}, {"half", 2}, {"quarter", 4}, {"eighth", 8}}};

}  // namespace

PipelineForm pipeline_form_of(const Configuration& configuration) {
  PipelineForm form{.crops_first = configuration.text("input.order") == "crop_first",
                    .decodes_crop = configuration.text("input.decode") == "crop"};
  const std::string point_ops = configuration.text("input.point_ops");
  if (point_ops == "fused") form.point_ops = PointOps::fused;
  if (point_ops == "per_batch") form.point_ops = PointOps::per_batch;
  if (point_ops == "device") form.point_ops = PointOps::device;
  std::string cache = configuration.text("input.cache");
  constexpr std::string_view kInFile = "_file";
  if (cache.ends_with(kInFile)) {
    cache.resize(cache.size() - kInFile.size());
    form.cache_place = CachePlace::file;
  }
  if (cache == "raw") form.cache = CacheKind::raw;
  if (cache == "decoded") form.cache = CacheKind::decoded;
  if (cache == "prefix") form.cache = CacheKind::prefix;
  const std::string dilation = configuration.text("input.dilation");
  if (dilation == "shifts") form.dilation = Dilation::shifts;
  if (dilation == "bits") form.dilation = Dilation::bits;
  form.indexes_jpegs = configuration.flag("input.jpeg_index");
  form.decode_scale =
      std::ranges::find(kDecodeScales, configuration.text("input.decode_scale"), &DecodeScale::name)
          ->scale;
  return form;
}

std::string_view decode_scale_name(int scale) {
  return std::ranges::find(kDecodeScales, scale, &DecodeScale::scale)->name;
}

}  // namespace autotuned::input
