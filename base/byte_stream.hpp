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

namespace autotuned {

// Reads a file from its beginning to its end. A file whose first two bytes are those of gzip is decompressed. One thread at a time.
class ByteStream {
 public:
  // Errors: ErrorKind::not_found, permission or io; invalid if `file` is not a regular file.
  [[nodiscard]] static Result<ByteStream> open(const std::filesystem::path& file);
  ~ByteStream();
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;

  struct Outcome {
    std::size_t bytes = 0;           // the number of bytes written to the front of `out`
    std::optional<Error> cut_short;  // why it read less than `out` holds
  };
  // Fills `out`. Errors: ErrorKind::corrupt, whose `what` is "the file ends" or "the gzip data is damaged", to which the caller
  // can add the position; ErrorKind::io if the system failed.
  [[nodiscard]] Outcome read(std::span<std::uint8_t> out);

  // Reads at least one byte, and as many more as are available without waiting; 0 at the end, or if `out` is
  // empty. Errors are those of read(); bytes that earlier calls returned stay valid. Bytes after the end of a
  // gzip stream are ignored.
  [[nodiscard]] Result<std::size_t> read_some(std::span<std::uint8_t> out);

  // Ok if nothing is left to read and the checksum of a gzip stream is right.
  [[nodiscard]] Result<void> expect_end();

  // The largest number of bytes that the file can hold: its size, or 1032 times its size for gzip (the limit
  // of the format). Used to refuse wrong sizes in headers before memory is allocated for them.
  [[nodiscard]] std::uint64_t most_bytes() const;

 private:
  struct State;
  explicit ByteStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace autotuned
