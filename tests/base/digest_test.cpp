// SPDX-License-Identifier: Apache-2.0
#include "base/digest.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

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

// The same digest, as `openssl dgst -sha256 -binary | base64` prints it.
TEST(Sha256, IsToldInBase64) {
  Sha256 digest;
  digest.update("abc");
  EXPECT_EQ(digest.finish_base64(), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

TEST(Sha256, PiecesMakeTheSameDigest) {
  Sha256 digest;
  digest.update("a");
  Sha256 moved = std::move(digest);
  moved.update("");
  moved.update(std::as_bytes(std::span("bc", 2)));
  EXPECT_EQ(moved.finish(), kOfAbc);
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
