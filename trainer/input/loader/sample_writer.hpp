// SPDX-License-Identifier: Apache-2.0
// Puts samples into a batch in the form that the step wants.
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

// Const and free of locks: any number of threads at once, each with a scratch of its own.
class SampleWriter {
 public:
  // All must outlive this. REQUIRES: the pipeline was compiled for the data's type; what is kept is of that
  // data and such a pipeline.
  SampleWriter(const Dataset& dataset, const Pipeline& pipeline, Kept kept = {});

  // Room for one sample; kept by a thread between calls.
  using Scratch = Pipeline::Scratch;
  [[nodiscard]] Scratch make_scratch() const;

  // To `chunk.buffer.images` goes what Pipeline::run() writes, for the whole batch from there on.
  // An exception from the data set becomes an Error. Where the data have damage(), the next sample that can
  // be read stands in for one that cannot, with its own label and the draws of the place that it takes.
  [[nodiscard]] Result<void> write(const BatchRing::Chunk& chunk, PixelType type,
                                   Scratch& scratch) const;

  // Puts into the cache and the index what belongs there of a sample, unless it is there. Errors as write().
  [[nodiscard]] Result<void> keep(std::int64_t index, Scratch& scratch) const;

  // Whether a batch holds samples as they are stored.
  [[nodiscard]] bool only_copies(PixelType type) const {
    return !pipeline_.has_stages() && stored_ == pipeline_.written_element(type);
  }

 private:
  void prefetch(std::int64_t index) const;
  Result<void> write_sample(std::int64_t index, Position position, PixelType type,
                            std::uint8_t* out, std::int64_t& label, Scratch& scratch) const;
  Result<void> write_image(std::int64_t index, Position position, PixelType type, std::uint8_t* out,
                           Scratch& scratch) const;
  Result<Sample> stored_sample(std::int64_t index, Scratch& scratch) const;
  // What write_image() goes on with: what is stored, or what the cache keeps of it.
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
};

}  // namespace autotuned::input
