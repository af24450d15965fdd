// SPDX-License-Identifier: Apache-2.0
// Writes samples into a batch in the form that the step needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/loader/batch_ring.hpp"
#include "trainer/input/loader/kept.hpp"
#include "trainer/input/transforms/pipeline.hpp"

namespace autotuned::input {

// The size of a target in a BatchBuffer; if both are 0, the target is a label.
struct TargetSize {
  std::size_t floats = 0;
  std::size_t mask_bytes = 0;
};

// Const and free of locks: any number of threads at once, each with a scratch of its own.
class SampleWriter {
 public:
  // All must outlive this. REQUIRES: the pipeline was compiled for the data's type, with masks if targets are such, and
  // cache and index belong to that data and such a pipeline.
  SampleWriter(const Dataset& dataset, const Pipeline& pipeline, Kept kept = {});

  // Memory for one sample, kept by a thread between calls.
  using Scratch = Pipeline::Scratch;
  [[nodiscard]] Scratch make_scratch() const;

  // Writes the output of Pipeline::run() for each sample of the chunk to `chunk.buffer.images`. An exception of the
  // data set becomes an Error. If the data have damage(), the next readable sample replaces one that cannot be read,
  // with its own target and the draws of the position that it takes.
  [[nodiscard]] Result<void> write(const BatchRing::Chunk& chunk, PixelType type,
                                   Scratch& scratch) const;

  // Adds a sample to the cache and the index, unless it is there. Errors as write().
  [[nodiscard]] Result<void> keep(std::int64_t index, Scratch& scratch) const;

  [[nodiscard]] TargetSize target_size() const { return target_size_; }

  // Whether a batch holds samples as they are stored.
  [[nodiscard]] bool only_copies(PixelType type) const {
    return !pipeline_.has_stages() && stored_ == pipeline_.written_element(type);
  }

 private:
  void prefetch(std::int64_t index) const;
  // Writes the sample with index `i` of the chunk, its image to `out`.
  Result<void> write_sample(const BatchRing::Chunk& chunk, std::size_t i, PixelType type,
                            std::uint8_t* out, Scratch& scratch) const;
  Result<void> write_image(std::int64_t index, Position position, PixelType type, std::uint8_t* out,
                           Scratch& scratch) const;
  Result<void> write_mask(std::int64_t index, Position position, std::uint8_t* out,
                          Scratch& scratch) const;
  Result<Sample> stored_sample(std::int64_t index, Scratch& scratch) const;
  // The input of write_image(): the stored sample, or the sample in the cache.
  struct Begin {
    Sample sample;
    bool is_kept = false;
  };
  Result<Begin> begin_of(std::int64_t index, Scratch& scratch) const;

  const Dataset& dataset_;
  const Pipeline& pipeline_;
  SampleCache* const cache_;
  JpegIndex* const index_;
  const Element stored_;
  std::size_t stored_bytes_ = 0;  // of every sample; unless encoded
  const TargetSize target_size_;
};

}  // namespace autotuned::input
