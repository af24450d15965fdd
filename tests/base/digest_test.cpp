// SPDX-License-Identifier: Apache-2.0
#include "base/digest.hpp"

#include <gtest/gtest.h>
#include <sha256.h>
#include <sys/stat.h>

#include <array>
#include <random>
#include <vector>

#include "base/sha256_blocks.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

// FIPS 180-2, appendix B.
constexpr const char* kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kOfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kOfAMillionA =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex("abc"), kOfAbc);
  EXPECT_EQ(sha256_hex(""), kOfNothing);
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')), kOfAMillionA);
}

TEST(Sha256, PiecesMakeTheSameDigest) {
  Sha256 digest;
  digest.update("a");
  Sha256 moved = std::move(digest);
  moved.update("");
  moved.update(std::as_bytes(std::span("bc", 2)));
  EXPECT_EQ(moved.finish(), kOfAbc);
}

// By way of libmd, byte by byte in one go and in odd pieces: lengths around the ends of blocks.
TEST(Sha256, EveryLengthIsThatOfAnotherImplementation) {
  std::mt19937 random(1);
  std::string text;
  for (int length = 0; length < 400; ++length) {
    SHA2_CTX other;
    SHA256Init(&other);
    SHA256Update(&other, reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    std::array<char, SHA256_DIGEST_STRING_LENGTH> expected{};
    SHA256End(&other, expected.data());
    EXPECT_EQ(sha256_hex(text), expected.data()) << length;
    Sha256 pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + random() % 90;
      pieces.update(std::string_view(text).substr(at, size));
      at += size;
    }
    EXPECT_EQ(pieces.finish(), expected.data()) << length;
    text += static_cast<char>(random());
  }
}

TEST(Sha256, InstructionsOfTheCpuAgreeWithPlainCode) {
  const Sha256Blocks fast = sha256_blocks_of_cpu();
  if (fast == nullptr) GTEST_SKIP() << "this CPU has none";
  std::mt19937 random(2);
  std::vector<std::uint8_t> data(64 * 64 + 1);
  std::array<std::uint32_t, 8> one{};
  std::array<std::uint32_t, 8> other{};
  for (std::size_t blocks = 0; blocks <= 64; ++blocks) {
    for (std::uint8_t& byte : data)
      byte = static_cast<std::uint8_t>(random());
    fast(one.data(), data.data() + 1, blocks);  // at any address
    sha256_blocks_plain(other.data(), data.data() + 1, blocks);
    EXPECT_EQ(one, other) << blocks;
  }
}

TEST(Sha256, OfAFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(*sha256_hex_of_file(folder.write("a", std::string(1'000'000, 'a'))), kOfAMillionA);
  EXPECT_EQ(*sha256_hex_of_file(folder.write("b", "")), kOfNothing);
}

TEST(Sha256, OfWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(sha256_hex_of_file(folder / "missing").error().kind, ErrorKind::not_found);
  EXPECT_EQ(sha256_hex_of_file(folder.path()).error().kind, ErrorKind::invalid);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(sha256_hex_of_file(folder / "pipe").error().kind, ErrorKind::invalid);
}

}  // namespace
}  // namespace autotuned
