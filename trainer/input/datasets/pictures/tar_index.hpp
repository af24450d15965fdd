// SPDX-License-Identifier: Apache-2.0
// The positions of files in a tar file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/datasets/data_file.hpp"

namespace autotuned::input {

struct TarMember {
  std::string name;
  std::int64_t begin = 0;  // of its bytes, in the tar file
  std::int64_t bytes = 0;
};

// The regular files of a tar file, in its order; folders and links are skipped. Reads only headers:
// ustar, names and sizes of GNU tar beyond it, names and sizes in records of pax. All bytes of a member lie
// in the file. Errors name the file and the byte at which something is wrong.
[[nodiscard]] Result<std::vector<TarMember>> read_tar_index(const DataFile& file,
                                                            const std::string& path);

}  // namespace autotuned::input
