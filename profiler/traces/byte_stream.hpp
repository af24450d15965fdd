// SPDX-License-Identifier: Apache-2.0
// The bytes of a file, unpacked on the way when it is gzipped (whatever its name says).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace autotuned::traces {

class ByteStream {
 public:
  // ErrorKind::not_found, `permission` or `io`; `invalid` for what is no regular file.
  [[nodiscard]] static Result<ByteStream> open(const std::filesystem::path& file);
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;
  ~ByteStream();

  // Up to `capacity` bytes; 0 at the end. ErrorKind::corrupt where a gzipped file breaks off or its
  // checksum is wrong: what came before is good.
  [[nodiscard]] Result<std::size_t> read(char* to, std::size_t capacity);

 private:
  struct Handle;
  explicit ByteStream(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

}  // namespace autotuned::traces
