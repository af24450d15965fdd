// SPDX-License-Identifier: Apache-2.0
#include "trainer/evaluation/test_tags.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

namespace autotuned::trainer {

void TestTags::add(const at::Tensor& logits, const at::Tensor& tags) {
  const at::Tensor found = logits.gt(0);
  const at::Tensor there = tags.gt(0.5);
  const at::Tensor counts =
      at::stack({found.logical_and(there).sum(0), found.sum(0), there.sum(0)});
  counts_ = counts_.defined() ? counts_ + counts : counts;
}

void TestTags::tell(TestResult& result) const {
  if (!counts_.defined()) return;
  const at::Tensor counted = counts_.to(at::kCPU).contiguous();
  const auto* const count = counted.const_data_ptr<std::int64_t>();
  const auto width = static_cast<std::size_t>(counted.size(1));
  TagFigures& tags = result.tags.emplace();
  for (std::size_t i = 0; i < width; ++i) {
    const TagFigures::Tag tag = {
        .true_positives = count[i], .found = count[width + i], .there = count[2 * width + i]};
    tags.all.true_positives += tag.true_positives;
    tags.all.found += tag.found;
    tags.all.there += tag.there;
    tags.tags.push_back(tag);
  }
}

}  // namespace autotuned::trainer
