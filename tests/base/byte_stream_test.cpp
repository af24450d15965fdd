// SPDX-License-Identifier: Apache-2.0
#include "base/byte_stream.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

// As a gzip member of its own, behind what the file holds.
void append_member(const std::filesystem::path& file, const std::string& text) {
  gzFile opened = gzopen(file.c_str(), "ab");
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(gzwrite(opened, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  EXPECT_EQ(gzclose(opened), Z_OK);
}

struct Read {
  std::string text;
  std::optional<Error> error;
};

// To the end, in pieces.
Read read_all(const std::filesystem::path& file) {
  auto stream = ByteStream::open(file);
  EXPECT_TRUE(stream);
  Read all;
  std::array<std::uint8_t, 1000> piece{};
  for (;;) {
    const auto count = stream->read_some(piece);
    if (!count) {
      all.error = count.error();
      return all;
    }
    if (*count == 0) return all;
    all.text.append(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(*count));
  }
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 40'000; ++i)
    text += std::to_string(i);
  return text;
}

TEST(ByteStream, ReadsPlainAndPackedFilesAlike) {
  const TemporaryFolder folder;
  const std::string text = long_text();
  EXPECT_EQ(read_all(folder.write("plain", text)).text, text);
  append_member(folder / "packed", text);
  EXPECT_EQ(read_all(folder / "packed").text, text);
  EXPECT_EQ(read_all(folder.write("empty", "")).text, "");
}

TEST(ByteStream, ReadsMembersOneAfterTheOther) {
  const TemporaryFolder folder;
  append_member(folder / "packed", "one ");
  append_member(folder / "packed", "");
  append_member(folder / "packed", "two");
  const Read all = read_all(folder / "packed");
  EXPECT_EQ(all.text, "one two");
  EXPECT_FALSE(all.error);
}

TEST(ByteStream, PassesOverWhatFollowsAPackedFileUnlessItIsAskedFor) {
  const TemporaryFolder folder;
  append_member(folder / "packed", "text");
  std::ofstream(folder / "packed", std::ios::app) << "more";
  const Read all = read_all(folder / "packed");
  EXPECT_EQ(all.text, "text");
  EXPECT_FALSE(all.error);
  auto stream = ByteStream::open(folder / "packed");
  ASSERT_TRUE(stream);
  std::array<std::uint8_t, 4> whole{};
  EXPECT_FALSE(stream->read(whole).cut_short);
  const auto end = stream->expect_end();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().what, "more bytes follow");
}

TEST(ByteStream, TellsWhatCameBeforeTheDamage) {
  const TemporaryFolder folder;
  const std::string text = long_text();
  append_member(folder / "packed", text);
  std::filesystem::resize_file(folder / "packed",
                               std::filesystem::file_size(folder / "packed") / 2);
  const Read cut = read_all(folder / "packed");
  EXPECT_GT(cut.text.size(), text.size() / 4);
  EXPECT_TRUE(text.starts_with(cut.text));
  ASSERT_TRUE(cut.error);
  EXPECT_EQ(cut.error->kind, ErrorKind::corrupt);
  EXPECT_EQ(cut.error->what, "the file ends");
}

TEST(ByteStream, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  const auto of_folder = ByteStream::open(folder / ".");
  ASSERT_FALSE(of_folder);
  EXPECT_EQ(of_folder.error().kind, ErrorKind::invalid);
  const auto missing = ByteStream::open(folder / "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace autotuned
