// SPDX-License-Identifier: Apache-2.0
// Whether an archive of PyTorch (torch.save, torch.jit.save, a checkpoint) is as it was written. LibTorch compares no checksums.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::trainer {

// Compares the CRC-32 of every record that is not compressed: of all tensors. `archive` is what `file` holds. ErrorKind::corrupt
// with this remedy: a record has another checksum, or the directory of records is damaged. What is no zip archive passes, and
// so does a record without a checksum, which Python's torch.serialization.set_crc32_options(False) writes.
[[nodiscard]] Result<void> check_archive(std::string_view archive,
                                         const std::filesystem::path& file,
                                         const std::string& remedy);

}  // namespace autotuned::trainer
