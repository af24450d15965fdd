// SPDX-License-Identifier: Apache-2.0
// The names in a folder. The standard library's iterator allocates in functions that may not throw, so it ends the
// program if memory runs out.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

namespace autotuned {

// Reads the names one after the other, in the order of the file system. One thread; asks for memory only to open the folder.
class FolderNames {
 public:
  explicit FolderNames(const char* folder);

  // The next name, without "." and "..". Valid until the next call, with a null byte after it. Nothing at the end, or
  // if the folder cannot be opened or read.
  [[nodiscard]] std::optional<std::string_view> next();

  // Why the folder could not be read to its end; none if it could.
  [[nodiscard]] std::error_code failure() const { return failure_; }

 private:
  struct Close {
    void operator()(void* folder) const;
  };
  std::unique_ptr<void, Close> folder_;
  std::error_code failure_;
};

}  // namespace autotuned
