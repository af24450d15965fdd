// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/sample_writer.hpp"

#include <algorithm>
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

SampleWriter::SampleWriter(const Dataset& dataset, const Pipeline& pipeline)
    : dataset_(dataset), pipeline_(pipeline), stored_(dataset.type().element) {
  if (stored_ != Element::encoded) {
    const SampleShape shape = dataset.type().shape();
    stored_bytes_ = static_cast<std::size_t>(shape.elements()) * bytes_of(stored_);
  }
}

SampleWriter::Scratch SampleWriter::make_scratch() const {
  Scratch scratch = pipeline_.make_scratch();
  scratch.stored.resize(stored_bytes_);
  return scratch;
}

Result<void> SampleWriter::write(const BatchRing::Chunk& chunk, PixelType type,
                                 Scratch& scratch) const {
  const auto& indices = chunk.indices;
  const std::size_t image_bytes = pipeline_.written_bytes(type);
  try {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (i + kPrefetchDistance < indices.size()) {
        prefetch(dataset_.view(indices[i + kPrefetchDistance]));
      }
      const std::size_t at = static_cast<std::size_t>(chunk.begin) + i;
      chunk.buffer.labels[at] = dataset_.label(indices[i]);
      Position position = chunk.position;
      position.sample += static_cast<std::int64_t>(i);
      auto written =
          write_image(indices[i], position, type,
                      static_cast<std::uint8_t*>(chunk.buffer.images) + at * image_bytes, scratch);
      if (!written) {
        if (written.error().where.empty()) written.error().where = dataset_.name(indices[i]);
        return written;
      }
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory to read a sample", "the data set");
  } catch (const std::exception& exception) {
    return fail(ErrorKind::internal, std::string("reading a sample failed: ") + exception.what(),
                "the data set");
  }
}

Result<void> SampleWriter::write_image(std::int64_t index, Position position, PixelType type,
                                       std::uint8_t* out, Scratch& scratch) const {
  const bool is_as_stored = stored_ == pipeline_.written_element(type);
  if (!pipeline_.has_stages() && is_as_stored) return dataset_.read(index, {out, stored_bytes_});
  auto bytes = stored_bytes(index, scratch);
  if (!bytes) return tl::unexpected(std::move(bytes.error()));
  if (!pipeline_.has_stages()) {
    convert_sample(*pipeline_.table(), *bytes, reinterpret_cast<float*>(out));
    return {};
  }
  Sample sample{.element = stored_, .bytes = *bytes};
  if (stored_ != Element::encoded) sample.shape = pipeline_.stored().shape();
  return pipeline_.run(sample, position, type, out, scratch);
}

Result<std::span<const std::uint8_t>> SampleWriter::stored_bytes(std::int64_t index,
                                                                 Scratch& scratch) const {
  const auto view = dataset_.view(index);
  if (!view.empty()) return view;
  auto read = stored_ == Element::encoded ? dataset_.read_encoded(index, scratch.stored)
                                          : dataset_.read(index, scratch.stored);
  if (!read) return tl::unexpected(std::move(read.error()));
  return std::span<const std::uint8_t>(scratch.stored);
}

}  // namespace autotuned::input
