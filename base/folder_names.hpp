// SPDX-License-Identifier: Apache-2.0
// The names in a folder. What the standard library has for it asks for memory where nothing may be thrown, and so ends
// the program where there is none.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

namespace autotuned {

// Reads them one after the other, in the order of the file system. One thread; asks for memory only to open the folder.
class FolderNames {
 public:
  explicit FolderNames(const char* folder);

  // "." and ".." are left out. Valid until the next call, with a null byte behind it. Nothing at the end, and where the
  // folder cannot be opened or read any further.
  [[nodiscard]] std::optional<std::string_view> next();

  // Why it could not be read to its end; none as long as it could.
  [[nodiscard]] std::error_code failure() const { return failure_; }

 private:
  struct Close {
    void operator()(void* folder) const;
  };
  std::unique_ptr<void, Close> folder_;
  std::error_code failure_;
};

}  // namespace autotuned
