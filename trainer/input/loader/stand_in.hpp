// SPDX-License-Identifier: Apache-2.0
// A few samples that fill all batches instead of new ones, to measure what a part of loading costs.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/loader/batch_ring.hpp"
#include "trainer/input/loader/sample_writer.hpp"
#include "trainer/input/transforms/pipeline.hpp"

namespace autotuned::input {

// Const and free of locks: any number of threads at once.
class StandIn {
 public:
  // The most bytes of samples that it keeps: more than the caches of a processor hold.
  static constexpr std::size_t kMaxBytes = 64U << 20U;

  virtual ~StandIn() = default;

  // As SampleWriter::write(). With made samples it writes the finished batch.
  [[nodiscard]] virtual Result<void> write(const BatchRing::Chunk& chunk, PixelType type,
                                           SampleWriter::Scratch& scratch) const = 0;
  // Whether the written batch is finished: no stages over the whole batch remain.
  [[nodiscard]] virtual bool makes_whole_batches() const = 0;
};

// The next `most_samples` of that order as stored bytes, without those that cannot be read. The pipeline runs over
// them. Data and pipeline must outlive it. Errors: none can be read; then that of the
// first. REQUIRES: most_samples >= 1.
[[nodiscard]] Result<std::unique_ptr<const StandIn>> stored_samples(const Dataset& dataset,
                                                                    const Pipeline& pipeline,
                                                                    EpochOrder& order,
                                                                    Position from,
                                                                    std::int64_t most_samples);

// The samples of a batch of that type and their targets. REQUIRES: samples >= 1.
[[nodiscard]] std::unique_ptr<const StandIn> made_samples(const BatchBuffer& batch,
                                                          std::int64_t samples,
                                                          std::size_t sample_bytes,
                                                          TargetSize target);

}  // namespace autotuned::input
