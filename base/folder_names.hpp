// SPDX-License-Identifier: Apache-2.0
// The names in a folder. Used instead of the standard library's iterator, which allocates memory in noexcept
// functions and so ends the program if memory runs out.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

namespace autotuned {

// Reads the names one after the other, in the order of the file system. One thread. Allocates memory only to
// open the folder.
class FolderNames {
 public:
  explicit FolderNames(const char* folder);

  // The next name, without "." and "..", terminated by a null byte; valid until the next call. Nothing at the
  // end, or if the folder cannot be opened or read.
  [[nodiscard]] std::optional<std::string_view> next();

  // The error if the folder could not be read to its end.
  [[nodiscard]] std::error_code failure() const { return failure_; }

 private:
  struct Close {
    void operator()(void* folder) const;
  };
  std::unique_ptr<void, Close> folder_;
  std::error_code failure_;
};

}  // namespace autotuned
