// SPDX-License-Identifier: Apache-2.0
// Files of data that are read by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "trainer/input/common/sample.hpp"

namespace autotuned::input {

// Const, any number of threads at once. Does not keep its path, which only errors need: who opens a file
// for every sample would take memory for it.
struct DataFile {
  Descriptor descriptor;
  std::int64_t bytes = 0;  // when it was opened
};

// ErrorKind::not_found, permission, io, or invalid when it is not a regular file.
[[nodiscard]] Result<DataFile> open_data_file(const std::string& path);

// What the file is now.
[[nodiscard]] FileStamp stamp_of(const DataFile& file);

// Fills `out` from `offset` on; gives fewer bytes only where the file ends.
[[nodiscard]] Result<std::size_t> read_at(const DataFile& file, std::int64_t offset,
                                          std::span<std::uint8_t> out, const std::string& path);

// The same where all of it was there when the file was opened. ErrorKind::corrupt: it is not any more.
[[nodiscard]] Result<void> read_all_at(const DataFile& file, std::int64_t offset,
                                       std::span<std::uint8_t> out, const std::string& path);

// Text out of a file as messages show it: on one line, and not too long.
[[nodiscard]] std::string shown_text(std::string_view text);

}  // namespace autotuned::input
