// SPDX-License-Identifier: Apache-2.0
#include "base/folder_names.hpp"

#include <dirent.h>

#include <cerrno>

namespace autotuned {

FolderNames::FolderNames(const char* folder) : folder_(::opendir(folder)) {
  if (folder_ == nullptr) failure_ = std::error_code(errno, std::system_category());
}

std::optional<std::string_view> FolderNames::next() {
  while (folder_ != nullptr) {
    errno = 0;
    const dirent* const entry = ::readdir(static_cast<DIR*>(folder_.get()));
    if (entry == nullptr) {
      if (errno != 0) failure_ = std::error_code(errno, std::system_category());
      folder_.reset();
      break;
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return name;
  }
  return std::nullopt;
}

void FolderNames::Close::operator()(void* folder) const {
  ::closedir(static_cast<DIR*>(folder));
}

}  // namespace autotuned
