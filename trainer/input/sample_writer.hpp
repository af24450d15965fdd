// SPDX-License-Identifier: Apache-2.0
// Puts samples into a batch in the form that the step wants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "trainer/input/batch_ring.hpp"
#include "trainer/input/dataset.hpp"
#include "trainer/input/pipeline.hpp"

namespace autotuned::input {

// Const and free of locks: any number of threads at once, each with a scratch of its own.
class SampleWriter {
 public:
  // Both must outlive this. REQUIRES: the pipeline was compiled for the data's type.
  SampleWriter(const Dataset& dataset, const Pipeline& pipeline);

  // Room for one sample; kept by a thread between calls.
  using Scratch = Pipeline::Scratch;
  [[nodiscard]] Scratch make_scratch() const;

  // To `chunk.buffer.images` goes what Pipeline::run() writes, for the whole batch from there on.
  // An exception from the data set becomes an Error.
  [[nodiscard]] Result<void> write(const BatchRing::Chunk& chunk, PixelType type,
                                   Scratch& scratch) const;

 private:
  Result<void> write_image(std::int64_t index, Position position, PixelType type, std::uint8_t* out,
                           Scratch& scratch) const;
  Result<std::span<const std::uint8_t>> stored_bytes(std::int64_t index, Scratch& scratch) const;

  const Dataset& dataset_;
  const Pipeline& pipeline_;
  const Element stored_;
  std::size_t stored_bytes_ = 0;  // of every sample; unless encoded
};

}  // namespace autotuned::input
