// SPDX-License-Identifier: Apache-2.0
// Texts and files of tokens for a language model, told by their names and sizes.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.hpp"
#include "daemon/guide/data_folder.hpp"
#include "daemon/guide/folder_listing.hpp"

namespace autotuned::daemon {

// train.bin, with val.bin or test.bin for tests, as nanoGPT names them; or all files .txt, if they have 64 KiB together:
// less is a note to people. Nothing: neither is there. `from` as of look_at_data().
[[nodiscard]] std::optional<DataFolder> texts_in(const std::filesystem::path& folder,
                                                 const FolderListing& listing,
                                                 const std::filesystem::path& from);

// Whether a file of that name is a text or holds tokens: .txt, .text, .md or .bin.
[[nodiscard]] bool is_text_file(const std::filesystem::path& file);

// That file alone, whatever its size.
[[nodiscard]] DataFolder look_at_text(const std::filesystem::path& file,
                                      const std::filesystem::path& from);

}  // namespace autotuned::daemon
