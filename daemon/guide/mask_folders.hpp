// SPDX-License-Identifier: Apache-2.0
// Finds pictures with a mask each, in two folders beside each other: images/ and masks/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "daemon/guide/data_folder.hpp"
#include "daemon/guide/folder_listing.hpp"

namespace autotuned::daemon {

// Looks in the folder itself, or in its folder `train` with a folder for tests beside it. Nothing: there is no such
// pair of folders, or less than half of the first pictures have a mask of the same name. Looks at no more than `names_left`
// names, and subtracts their number from `names_left`.
[[nodiscard]] std::optional<DataFolder> folders_of_masks(const std::filesystem::path& folder,
                                                         const std::filesystem::path& from,
                                                         const FolderListing& listing,
                                                         std::int64_t& names_left);

}  // namespace autotuned::daemon
