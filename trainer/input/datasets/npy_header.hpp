// SPDX-License-Identifier: Apache-2.0
// The header of a .npy file: type and shape of the numbers that follow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/datasets/data_file.hpp"

namespace autotuned::input {

struct NpyHeader {
  char kind = 'u';     // u: unsigned integers, i: signed, f: floats
  int item_bytes = 1;  // 1 to 8
  std::vector<std::int64_t> shape;
  std::int64_t data_begin = 0;  // in bytes from the file's beginning

  // As NumPy writes it: "<f4", "|u1".
  [[nodiscard]] std::string type_text() const;
  // "(60000, 28, 28)".
  [[nodiscard]] std::string shape_text() const;
};

// Reads versions 1.0 to 3.0 of the format, with numbers in little-endian and C order. The file holds exactly as many
// numbers as the header says. Errors name the file and what to save instead; nothing in a file is ever unpickled.
[[nodiscard]] Result<NpyHeader> read_npy_header(const DataFile& file, const std::string& path);

}  // namespace autotuned::input
