// SPDX-License-Identifier: Apache-2.0
// IDX files made for a test, whole or broken.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace autotuned::input {

inline std::string idx_header(const std::vector<std::uint32_t>& dimensions,
                              std::uint8_t type = 0x08) {
  std::string text{'\0', '\0', static_cast<char>(type), static_cast<char>(dimensions.size())};
  for (const std::uint32_t dimension : dimensions) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) {
      text += static_cast<char>((dimension >> shift) & 0xffU);
    }
  }
  return text;
}

inline std::string gzipped(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  std::vector<Bytef> in(text.begin(), text.end());
  stream.next_in = in.data();
  stream.avail_in = static_cast<unsigned>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<unsigned>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// A folder of its own for each test, removed afterwards.
class IdxFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/autotuned-idx-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    const std::string file = (folder_ / name).string();
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace autotuned::input
