// SPDX-License-Identifier: Apache-2.0
// The bytes of a file, whether it is gzipped or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "base/result.hpp"

namespace autotuned::input {

// Reads forward; tells gzip by its first two bytes. One thread at a time.
class ByteStream {
 public:
  // ErrorKind::not_found, permission, io, or invalid when it is not a regular file.
  [[nodiscard]] static Result<ByteStream> open(const std::filesystem::path& file);
  ~ByteStream();
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;

  struct Outcome {
    std::size_t bytes = 0;           // written, from the front
    std::optional<Error> cut_short;  // set when fewer than asked for: why
  };
  // ErrorKind::corrupt with "the file ends" or "the gzip data is damaged" as its `what`, so that the
  // caller can say after how much; ErrorKind::io when the system failed.
  [[nodiscard]] Outcome read(std::span<std::uint8_t> out);

  // Ok when nothing is left and a gzip stream's checksum is right.
  [[nodiscard]] Result<void> expect_end();

  // No more than this can come out of the file: its size, or for gzip 1032 times that (the limit of
  // the format). To refuse absurd headers before memory is taken for them.
  [[nodiscard]] std::uint64_t most_bytes() const;

 private:
  struct State;
  explicit ByteStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::input
