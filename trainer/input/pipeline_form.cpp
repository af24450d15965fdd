// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/pipeline_form.hpp"

#include <string>
#include <string_view>

namespace autotuned::input {

PipelineForm pipeline_form_of(const Configuration& configuration) {
  PipelineForm form{.crops_first = configuration.text("input.order") == "crop_first",
                    .decodes_crop = configuration.text("input.decode") == "crop"};
  const std::string point_ops = configuration.text("input.point_ops");
  if (point_ops == "fused") form.point_ops = PointOps::fused;
  if (point_ops == "per_batch") form.point_ops = PointOps::per_batch;
  std::string cache = configuration.text("input.cache");
  constexpr std::string_view kInFile = "_file";
  if (cache.ends_with(kInFile)) {
    cache.resize(cache.size() - kInFile.size());
    form.cache_place = CachePlace::file;
  }
  if (cache == "raw") form.cache = CacheKind::raw;
  if (cache == "decoded") form.cache = CacheKind::decoded;
  if (cache == "prefix") form.cache = CacheKind::prefix;
  form.indexes_jpegs = configuration.flag("input.jpeg_index");
  return form;
}

}  // namespace autotuned::input
