// SPDX-License-Identifier: Apache-2.0
// Puts samples into a batch in the form that the step wants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/dataset.hpp"
#include "trainer/input/loader.hpp"
#include "trainer/input/pixel_table.hpp"

namespace autotuned::input {

// Const and free of locks: any number of threads at once, each with a scratch of its own.
class SampleWriter {
 public:
  // `dataset` must outlive this. REQUIRES: as many channels in both.
  SampleWriter(const Dataset& dataset, PixelTable table);

  // Room for one sample; kept by a thread between calls.
  using Scratch = std::vector<std::uint8_t>;
  [[nodiscard]] Scratch make_scratch() const { return Scratch(elements_); }

  // Writes samples `first`, `first` + 1, ... of a batch, whose data set indices are `indices`.
  // An exception from the data set becomes an Error.
  [[nodiscard]] Result<void> write(std::span<const std::uint32_t> indices, std::int64_t first,
                                   PixelType type, const BatchBuffer& buffer,
                                   Scratch& scratch) const;

 private:
  Result<void> write_image(std::int64_t index, std::size_t position, PixelType type, void* images,
                           Scratch& scratch) const;

  const Dataset& dataset_;
  PixelTable table_;
  std::size_t elements_;
};

}  // namespace autotuned::input
