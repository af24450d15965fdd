// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/settings/supported_knobs.hpp"

namespace autotuned::trainer {

std::vector<std::string> supported_knobs() {
  return {"batch_size",
          "checkpoint.async",
          "cuda.graph",
          "cudnn.benchmark",
          "ddp.bucket_cap_mb",
          "ddp.comm_hook",
          "ddp.gradient_as_bucket_view",
          "env.*",
          "input.cache",
          "input.decode",
          "input.decode_scale",
          "input.dilation",
          "input.jpeg_index",
          "input.order",
          "input.point_ops",
          "input.read_ahead",
          "layout.memory_format",
          "loader.affinity",
          "loader.pin_memory",
          "loader.prefetch_batches",
          "loader.workers",
          "memory.allocator",
          "memory.malloc",
          "optimizer.fused",
          "optimizer.set_to_none",
          "precision.autocast",
          "precision.keep_float32",
          "precision.tf32",
          "rewrite.gather",
          "threads.intra_op",
          "train.loss_reading",
          "transfer.dtype",
          "transfer.non_blocking"};
}

}  // namespace autotuned::trainer
