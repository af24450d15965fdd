// SPDX-License-Identifier: Apache-2.0
// The buffers of batches on the host. Part of feed.cpp: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace autotuned::trainer {

// The images in channels_last. With one channel both formats have the same layout, so that memory is only viewed with
// other strides: LibTorch decides by the strides, and those of the plain format mean "contiguous".
inline at::Tensor as_channels_last(const at::Tensor& images) {
  if (images.size(1) != 1) return images.contiguous(at::MemoryFormat::ChannelsLast);
  const std::int64_t rows = images.size(2);
  const std::int64_t columns = images.size(3);
  return images.as_strided(images.sizes(), {rows * columns, 1, columns, 1});
}

// The first `samples` samples, of a batch that may be short.
inline at::Tensor first_samples(const at::Tensor& tensor, std::int64_t samples) {
  return samples == tensor.size(0) ? tensor : tensor.narrow(0, 0, samples);
}

// The model's input and targets, made from blocks of tokens, int32 (samples, 1, 1, length + 1): the tokens, and the
// token after each. Both are int64 (samples, length), on the device of the blocks.
struct TokenBatch {
  at::Tensor tokens;
  at::Tensor next;
};
inline TokenBatch split_tokens(const at::Tensor& blocks) {
  const at::Tensor all = blocks.flatten(1).to(at::kLong);
  const std::int64_t length = all.size(1) - 1;
  return {all.narrow(1, 0, length).contiguous(), all.narrow(1, 1, length).contiguous()};
}

struct HostSlot {
  at::Tensor images;
  at::Tensor labels;
  at::Tensor direct;  // images as the model takes them, where no copy is needed
};

}  // namespace autotuned::trainer
