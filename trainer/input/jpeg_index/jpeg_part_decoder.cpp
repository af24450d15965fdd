// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_index/jpeg_part_decoder.hpp"

#include "trainer/input/jpeg_index/jpeg_index.hpp"

namespace autotuned::input {

std::optional<SampleShape> JpegPartDecoder::begin(const Sample& sample) {
  const SampleOrigin& origin = sample.origin;
  if (origin.index == nullptr) return std::nullopt;
  const auto points = origin.index->find(origin.item, origin.stamp, sample.bytes);
  if (!points || points->empty()) return std::nullopt;
  const auto header = read_jpeg_header(sample.bytes);
  sample_ = sample;
  points_ = *points;
  if (!header) {
    give_up();
    return std::nullopt;
  }
  header_ = *header;
  return SampleShape{3, header->height, header->width};
}

bool JpegPartDecoder::decode(const Window& part, std::uint8_t* out) {
  const bool is_decoded = file_.make(header_, sample_.bytes, points_, part) &&
                          decoder_.begin(file_.bytes()) &&
                          decoder_.decode_part_from(file_.first_column(), file_.part(), out);
  if (!is_decoded) give_up();
  return is_decoded;
}

void JpegPartDecoder::give_up() {
  const SampleOrigin& origin = sample_.origin;
  origin.index->drop(origin.item);
  origin.index->keep(origin.item, origin.stamp, sample_.bytes, {});
}

void JpegPartDecoder::index(const Sample& sample) {
  const SampleOrigin& origin = sample.origin;
  if (origin.index == nullptr || !origin.index->is_wanted(origin.item)) return;
  origin.index->keep(origin.item, origin.stamp, sample.bytes, scanner_.scan(sample.bytes));
}

}  // namespace autotuned::input
