// SPDX-License-Identifier: Apache-2.0
// Lists a folder. Used instead of the iterator of the standard library, which allocates memory in noexcept functions and
// therefore ends the program if memory runs out.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

namespace autotuned {

// Reads the names of the entries, in the order of the file system. One thread at a time. Allocates memory only to open the
// folder.
class FolderNames {
 public:
  explicit FolderNames(const char* folder);

  // Returns the next name except "." and "..", terminated by a null byte and valid until the next call. Returns nothing at the
  // end, or if the folder cannot be opened or read.
  [[nodiscard]] std::optional<std::string_view> next();

  // Why the folder could not be opened or read to its end; no error if it could.
  [[nodiscard]] std::error_code failure() const { return failure_; }

 private:
  struct Close {
    void operator()(void* folder) const;
  };
  std::unique_ptr<void, Close> folder_;
  std::error_code failure_;
};

}  // namespace autotuned
