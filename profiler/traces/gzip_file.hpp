// SPDX-License-Identifier: Apache-2.0
// Writes a gzipped file, which gets its name only when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::traces {

// The suffix of the name of a file that is being written. The file remains if the writing process is killed.
inline constexpr const char* kUnfinishedTrace = ".part";

// One thread at a time. A file that was not closed is removed.
class GzipFile {
 public:
  // Creates a file with the name of `file` and kUnfinishedTrace at its end. Errors: those of system_error().
  [[nodiscard]] static Result<GzipFile> create(const std::filesystem::path& file);
  GzipFile(GzipFile&&) noexcept;
  GzipFile& operator=(GzipFile&&) noexcept;
  ~GzipFile();

  // An error is reported by close(); after an error nothing more is written.
  void write(std::string_view bytes);
  // Renames the file to its final name and replaces an existing file. Returns its size in bytes. May be called once.
  [[nodiscard]] Result<std::int64_t> close();

 private:
  struct Handle;
  explicit GzipFile(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

}  // namespace autotuned::traces
