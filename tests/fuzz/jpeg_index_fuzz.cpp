// SPDX-License-Identifier: Apache-2.0
// Stored indices and the JPEG files that they are of: whatever an index holds does no harm, and a file that has
// points decodes whole, its parts with the pixels of the whole.
#include <zlib.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/target.hpp"
#include "tests/places.hpp"
#include "trainer/input/decode/jpeg_decoder.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"
#include "trainer/input/jpeg_index/jpeg_part_decoder.hpp"

namespace {

using namespace autotuned;
using namespace autotuned::input;

constexpr std::int64_t kItems = 4;
constexpr std::int64_t kMaxBytes = 1 << 20;
constexpr std::int64_t kMaxElements = 1 << 20;  // larger ones only take long

std::unique_ptr<JpegIndex> index_of(std::int64_t items) {
  auto index = JpegIndex::create(items, kMaxBytes);
  FUZZ_CHECK(index);
  return std::move(*index);
}

// Some part, as the bytes of the file will have it.
Window part_of(const SampleShape& shape, const std::uint8_t* data, std::size_t size) {
  std::uint64_t random = size;
  for (std::size_t i = 0; i < size; ++i)
    random = random * 1'099'511'628'211U + data[i];
  const auto below = [&random](int bound) {
    random = random * 6'364'136'223'846'793'005U + 1;
    return static_cast<int>((random >> 33U) % static_cast<std::uint64_t>(bound));
  };
  Window part{.height = 1 + below(shape.height), .width = 1 + below(shape.width)};
  part.top = below(shape.height - part.height + 1);
  part.left = below(shape.width - part.width + 1);
  return part;
}

void decode_parts(const std::uint8_t* data, std::size_t size) {
  static JpegPartDecoder indexed;
  static JpegDecoder plain;
  const std::span file(data, size);
  const auto index = index_of(1);
  const FileStamp stamp{static_cast<std::int64_t>(size), 1};
  const Sample sample{Element::encoded, {}, file, {stamp, 0, index.get()}};
  indexed.index(sample);
  const auto shape = indexed.begin(sample);
  if (!shape || shape->elements() > kMaxElements) return;
  FUZZ_CHECK(plain.begin(file) == *shape);
  std::vector<std::uint8_t> whole(static_cast<std::size_t>(shape->elements()));
  FUZZ_CHECK(plain.decode(whole.data()));
  const Window part = part_of(*shape, data, size);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * part.height * part.width));
  FUZZ_CHECK(indexed.decode(part, pixels.data()));
  auto at = pixels.begin();
  for (int channel = 0; channel < 3; ++channel) {
    for (int y = part.top; y < part.top + part.height; ++y, at += part.width) {
      const auto row = whole.begin() + (std::int64_t{channel} * shape->height + y) * shape->width;
      FUZZ_CHECK(std::equal(at, at + part.width, row + part.left));
    }
  }
}

// As an index of kItems times the same file; what it holds is put under a checksum that is right.
void use_index(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::uint8_t> file = [] {
    std::ifstream input(tests::source_folder() / "tests/trainer/input/data/420_37x51.jpg",
                        std::ios::binary);
    return std::vector<std::uint8_t>(std::istreambuf_iterator<char>(input), {});
  }();
  static JpegPartDecoder indexed;
  const auto checksum = static_cast<std::uint32_t>(::crc32_z(0, data, size));
  std::string content(fuzz::text_of(data, size));
  content.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  const auto index = index_of(kItems);
  const auto loaded = index->load(fuzz::file_with(content), "key");
  if (!loaded) {
    FUZZ_CHECK(!loaded.error().what.empty() && index->kept_items() == 0);
    return;
  }
  const FileStamp stamp{static_cast<std::int64_t>(file.size()), 1};
  for (std::int64_t item = 0; item < kItems; ++item) {
    const Sample sample{Element::encoded, {}, file, {stamp, item, index.get()}};
    const auto shape = indexed.begin(sample);
    if (!shape) continue;
    const Window part = part_of(*shape, data, size);
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * part.height * part.width));
    static_cast<void>(indexed.decode(part, pixels.data()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decode_parts(data, size);
  use_index(data, size);
  return 0;
}
