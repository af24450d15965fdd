// SPDX-License-Identifier: Apache-2.0
// Checks that an archive of PyTorch (torch.save, torch.jit.save, a checkpoint) is as it was written: LibTorch compares
// no checksums.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::trainer {

// Compares the CRC-32 of every uncompressed record, which includes all tensors. `archive` is the content of `file`.
// ErrorKind::corrupt with this remedy: a record has another checksum, or the directory of records is damaged. A file
// that is no zip archive passes, and so does a record without a checksum, as Python's
// torch.serialization.set_crc32_options(False) writes it.
[[nodiscard]] Result<void> check_archive(std::string_view archive,
                                         const std::filesystem::path& file,
                                         const std::string& remedy);

inline constexpr const char* kNoArchive = "it is no archive that PyTorch can read";
// Whether LibTorch's error says so. Its own words are those of a zip library inside of it.
[[nodiscard]] bool is_no_archive(std::string_view error);

}  // namespace autotuned::trainer
