// SPDX-License-Identifier: Apache-2.0
// Where batches lie on the host and land on the device. Part of feed.cpp: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace autotuned::trainer {

// The same memory seen as channels_last. An image with one channel is laid out alike in both
// formats, but LibTorch decides by the strides, and those of the plain format say "contiguous".
inline at::Tensor as_channels_last(const at::Tensor& images) {
  if (images.size(1) != 1) return images.contiguous(at::MemoryFormat::ChannelsLast);
  const std::int64_t rows = images.size(2);
  const std::int64_t columns = images.size(3);
  return images.as_strided(images.sizes(), {rows * columns, 1, columns, 1});
}

struct HostSlot {
  at::Tensor images;
  at::Tensor labels;
  at::Tensor direct;  // images as the model takes them, where no copy is needed
};

// Where batches land on the device; two of them, so that one can be filled while the other is used.
struct Landing {
  at::Tensor images;
  at::Tensor labels;
  std::optional<c10::Event> copied;
  std::optional<c10::Event> used;
};

}  // namespace autotuned::trainer
