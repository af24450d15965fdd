// SPDX-License-Identifier: Apache-2.0
// Writes a gzipped file that appears under its name only when it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::traces {

// Of a file that is being written, behind its name. It stays where the writing process is killed.
inline constexpr const char* kUnfinishedTrace = ".part";

// One thread. A file that was not closed leaves nothing behind.
class GzipFile {
 public:
  // Writes beside `file`, under its name and kUnfinishedTrace. The kinds of system_error().
  [[nodiscard]] static Result<GzipFile> create(const std::filesystem::path& file);
  GzipFile(GzipFile&&) noexcept;
  GzipFile& operator=(GzipFile&&) noexcept;
  ~GzipFile();

  // What goes wrong is told by close(); after that nothing more is written.
  void write(std::string_view bytes);
  // Gives the file its name, in the place of one that has it. Bytes on the disk. To be called once.
  [[nodiscard]] Result<std::int64_t> close();

 private:
  struct Handle;
  explicit GzipFile(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

}  // namespace autotuned::traces
