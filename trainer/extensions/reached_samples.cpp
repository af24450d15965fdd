// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/reached_samples.hpp"

namespace autotuned::trainer {

void ReachedSamples::start(const at::Tensor& given) {
  sizes_.assign(given.sizes().begin(), given.sizes().end());
  parts_.clear();
}

void ReachedSamples::watch(const at::Tensor& images, const at::Tensor& output) {
  if (sizes_.empty() || !output.defined() || !output.requires_grad()) return;
  if (images.dim() == 0 || images.sizes().slice(1) != at::IntArrayRef(sizes_).slice(1)) return;
  const auto part = std::make_shared<Part>();
  part->samples = images.size(0);
  parts_.push_back(part);
  // A gradient that is not defined stops at the output: nothing behind it is computed.
  output.register_hook([part](const at::Tensor& gradient) {
    if (gradient.defined()) part->has_gradient = true;
  });
}

void ReachedSamples::begin_backward() {
  for (const std::shared_ptr<Part>& part : parts_)
    part->has_gradient = false;
}

std::string ReachedSamples::difference() const {
  if (sizes_.empty()) return {};
  std::int64_t reached = 0;
  for (const std::shared_ptr<Part>& part : parts_)
    if (part->has_gradient) reached += part->samples;
  const std::int64_t given = sizes_.front();
  if (reached >= given) return {};
  return std::to_string(given - reached) + " of " + std::to_string(given) +
         (given == 1 ? " sample gets" : " samples get") + " no gradient";
}

}  // namespace autotuned::trainer
