// SPDX-License-Identifier: Apache-2.0
// Where batches lie on the host. Part of feed.cpp: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace autotuned::trainer {

// The same memory seen as channels_last. An image with one channel is laid out alike in both
// formats, but LibTorch decides by the strides, and those of the plain format say "contiguous".
inline at::Tensor as_channels_last(const at::Tensor& images) {
  if (images.size(1) != 1) return images.contiguous(at::MemoryFormat::ChannelsLast);
  const std::int64_t rows = images.size(2);
  const std::int64_t columns = images.size(3);
  return images.as_strided(images.sizes(), {rows * columns, 1, columns, 1});
}

// Of a batch that may be short.
inline at::Tensor first_samples(const at::Tensor& tensor, std::int64_t samples) {
  return samples == tensor.size(0) ? tensor : tensor.narrow(0, 0, samples);
}

// Of blocks of tokens int32 (samples, 1, 1, length + 1): what the model sees, and the token that follows each; both int64
// (samples, length), on the device of the blocks.
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
