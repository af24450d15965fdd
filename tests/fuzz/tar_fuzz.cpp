// SPDX-License-Identifier: Apache-2.0
// tar files, as they are and with the sums of their headers made right: else nothing that is changed would
// come further than that.
#include <cstdio>
#include <string>
#include <vector>

#include "base/file_pattern.hpp"
#include "tests/fuzz/target.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/datasets/pictures/tar_index.hpp"

namespace {

using namespace autotuned;

constexpr std::size_t kBlock = 512;

void examine(const std::string& content) {
  const std::string path = fuzz::file_with(content).string();
  const auto file = input::open_data_file(path);
  FUZZ_CHECK(file.has_value());
  const auto members = input::read_tar_index(*file, path);
  if (!members) {
    FUZZ_CHECK(!members.error().what.empty() && members.error().where.starts_with(path));
    FUZZ_CHECK(members.error().what.find('\n') == std::string::npos);
    return;
  }
  std::int64_t end = 0;
  for (const input::TarMember& member : *members) {
    FUZZ_CHECK(member.begin >= end + static_cast<std::int64_t>(kBlock) && member.bytes >= 0);
    end = member.begin + member.bytes;
    FUZZ_CHECK(end <= file->bytes);
  }
  for (const char* on_error : {"stop", "skip"}) {
    const auto dataset =
        input::open_dataset("tar", {{"files", as_pattern(path)}, {"on_error", on_error}});
    if (!dataset) {
      FUZZ_CHECK(dataset.error().message().find('\n') == std::string::npos);
      continue;
    }
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < (*dataset)->size(); ++i)
      FUZZ_CHECK((*dataset)->read_encoded(i, bytes));
  }
}

std::string with_right_sums(std::string content) {
  for (std::size_t at = 0; at + kBlock <= content.size(); at += kBlock) {
    if (content.compare(at + 257, 5, "ustar") != 0) continue;
    content.replace(at + 148, 8, "        ");
    unsigned sum = 0;
    for (std::size_t i = at; i < at + kBlock; ++i)
      sum += static_cast<unsigned char>(content[i]);
    char octal[16];
    std::snprintf(octal, sizeof octal, "%06o", sum);
    content.replace(at + 148, 7, octal, 7);
  }
  return content;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string content(fuzz::text_of(data, size));
  examine(content);
  examine(with_right_sums(content));
  return 0;
}
