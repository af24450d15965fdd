// SPDX-License-Identifier: Apache-2.0
// .npy files: the header, and data sets of what it tells with two labels.
#include <vector>

#include "base/file_pattern.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/places.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/datasets/npy_header.hpp"

namespace {

using namespace autotuned;

void read_samples(const std::string& path) {
  static const std::string kLabels =
      as_pattern((tests::source_folder() / "tests/trainer/input/data/labels.npy").string());
  for (const char* layout : {"nchw", "nhwc"}) {
    const auto dataset = input::open_dataset(
        "npy", {{"images", as_pattern(path)}, {"labels", kLabels}, {"layout", layout}});
    if (!dataset) {
      FUZZ_CHECK(!dataset.error().what.empty());
      continue;
    }
    const input::SampleType type = (*dataset)->type();
    std::vector<float> room(static_cast<std::size_t>(type.shape().elements()));
    const std::span out(reinterpret_cast<std::uint8_t*>(room.data()),
                        room.size() * input::bytes_of(type.element));
    for (std::int64_t i = 0; i < (*dataset)->size(); ++i)
      FUZZ_CHECK((*dataset)->read(i, out));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::file_with(fuzz::text_of(data, size)).string();
  const auto file = input::open_data_file(path);
  FUZZ_CHECK(file && file->bytes == static_cast<std::int64_t>(size));
  const auto header = input::read_npy_header(*file, path);
  if (!header) {
    FUZZ_CHECK(!header.error().what.empty() && header.error().where == path);
    FUZZ_CHECK(header.error().what.find('\n') == std::string::npos);
    return 0;
  }
  // No more numbers than the file has bytes for.
  std::int64_t left = file->bytes - header->data_begin;
  FUZZ_CHECK(left >= 0 && left % header->item_bytes == 0);
  left /= header->item_bytes;
  for (const std::int64_t count : header->shape) {
    FUZZ_CHECK(count >= 0);
    if (left == 0) break;
    FUZZ_CHECK(count > 0 && left % count == 0);
    left /= count;
  }
  FUZZ_CHECK(left <= 1);
  read_samples(path);
  return 0;
}
