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

// Const: any number of threads at once. Does not keep its path, which only errors need, because a data set that opens a
// file for every sample would allocate memory for each.
struct DataFile {
  Descriptor descriptor;
  std::int64_t bytes = 0;  // when it was opened
};

// ErrorKind::not_found, permission, io, or invalid when it is not a regular file.
[[nodiscard]] Result<DataFile> open_data_file(const std::string& path);

// Size and modification time of the file now.
[[nodiscard]] FileStamp stamp_of(const DataFile& file);

// Fills `out` from `offset` on; returns fewer bytes only at the end of the file.
[[nodiscard]] Result<std::size_t> read_at(const DataFile& file, std::int64_t offset,
                                          std::span<std::uint8_t> out, const std::string& path);

// The same for bytes that the file had when it was opened. ErrorKind::corrupt: the file has become shorter.
[[nodiscard]] Result<void> read_all_at(const DataFile& file, std::int64_t offset,
                                       std::span<std::uint8_t> out, const std::string& path);

// Text of a file for messages: on one line, and not too long.
[[nodiscard]] std::string shown_text(std::string_view text);

}  // namespace autotuned::input
