// SPDX-License-Identifier: Apache-2.0
// Writes a gzipped file that gets its name only when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::traces {

// The suffix of the name of a file that is being written. The file remains if the writing process is killed.
inline constexpr const char* kUnfinishedTrace = ".part";

// One thread. A file that was not closed is removed.
class GzipFile {
 public:
  // Writes to the name of `file` with kUnfinishedTrace appended. Errors: those of system_error().
  [[nodiscard]] static Result<GzipFile> create(const std::filesystem::path& file);
  GzipFile(GzipFile&&) noexcept;
  GzipFile& operator=(GzipFile&&) noexcept;
  ~GzipFile();

  // close() reports an error of write(); after an error nothing more is written.
  void write(std::string_view bytes);
  // Renames the file to its name, replacing an existing file. Returns its size in bytes. May be called once.
  [[nodiscard]] Result<std::int64_t> close();

 private:
  struct Handle;
  explicit GzipFile(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

}  // namespace autotuned::traces
