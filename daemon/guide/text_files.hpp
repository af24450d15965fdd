// SPDX-License-Identifier: Apache-2.0
// Finds texts and token files for a language model, by names and sizes.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.hpp"
#include "daemon/guide/data_folder.hpp"
#include "daemon/guide/folder_listing.hpp"

namespace autotuned::daemon {

// Looks for train.bin, with val.bin or test.bin for tests, as nanoGPT names them; or else for .txt files of 64 KiB or
// more together (less gives a note). Nothing if there is neither. `from`: see look_at_data().
[[nodiscard]] std::optional<DataFolder> texts_in(const std::filesystem::path& folder,
                                                 const FolderListing& listing,
                                                 const std::filesystem::path& from);

// Whether a file of that name is a text or holds tokens: .txt, .text, .md or .bin.
[[nodiscard]] bool is_text_file(const std::filesystem::path& file);

// The same for one file alone, whatever its size.
[[nodiscard]] DataFolder look_at_text(const std::filesystem::path& file,
                                      const std::filesystem::path& from);

}  // namespace autotuned::daemon
