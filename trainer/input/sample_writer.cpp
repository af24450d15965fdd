// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/sample_writer.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace autotuned::input {
namespace {

constexpr std::size_t kCacheLineBytes = 64;
// Of a longer sample the hardware fetches the rest by itself.
constexpr std::size_t kMostPrefetchedBytes = 4096;
// Shuffled samples lie anywhere in memory, so that every one starts with cache misses. Asking for
// each two samples early nearly doubles the rate of small images.
constexpr std::size_t kPrefetchDistance = 2;

void prefetch(std::span<const std::uint8_t> bytes) {
  const std::size_t count = std::min(bytes.size(), kMostPrefetchedBytes);
  for (std::size_t i = 0; i < count; i += kCacheLineBytes)
    __builtin_prefetch(bytes.data() + i);
}

}  // namespace

SampleWriter::SampleWriter(const Dataset& dataset, PixelTable table)
    : dataset_(dataset),
      table_(std::move(table)),
      elements_(static_cast<std::size_t>(dataset.shape().elements())) {
  assert(table_.channels == dataset.shape().channels);
}

Result<void> SampleWriter::write(std::span<const std::uint32_t> indices, std::int64_t first,
                                 PixelType type, const BatchBuffer& buffer,
                                 Scratch& scratch) const {
  try {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (i + kPrefetchDistance < indices.size()) {
        prefetch(dataset_.view(indices[i + kPrefetchDistance]));
      }
      const std::size_t position = static_cast<std::size_t>(first) + i;
      buffer.labels[position] = dataset_.label(indices[i]);
      auto written = write_image(indices[i], position, type, buffer.images, scratch);
      if (!written) return written;
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory to read a sample", "the data set");
  } catch (const std::exception& exception) {
    return fail(ErrorKind::internal, std::string("reading a sample failed: ") + exception.what(),
                "the data set");
  }
}

Result<void> SampleWriter::write_image(std::int64_t index, std::size_t position, PixelType type,
                                       void* images, Scratch& scratch) const {
  if (type == PixelType::uint8) {
    const std::span<std::uint8_t> out(static_cast<std::uint8_t*>(images) + position * elements_,
                                      elements_);
    return dataset_.read(index, out);
  }
  auto bytes = dataset_.view(index);
  if (bytes.empty()) {
    auto read = dataset_.read(index, scratch);
    if (!read) return read;
    bytes = scratch;
  }
  convert_sample(table_, bytes, static_cast<float*>(images) + position * elements_);
  return {};
}

}  // namespace autotuned::input
