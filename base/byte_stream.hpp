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
    std::optional<Error> cut_short;  // why it read less than `out` holds
  };
  // Fills `out`. ErrorKind::corrupt with "the file ends" or "the gzip data is damaged" as its `what`, so that the
  // caller can say after how much; ErrorKind::io when the system failed.
  [[nodiscard]] Outcome read(std::span<std::uint8_t> out);

  // What comes next, as much as is at hand; 0 at the end, and for an empty `out`. The errors of read(), where a gzip stream
  // breaks off or is damaged: what came before is good. Bytes behind a gzip stream are passed over.
  [[nodiscard]] Result<std::size_t> read_some(std::span<std::uint8_t> out);

  // Ok when nothing is left and a gzip stream's checksum is right.
  [[nodiscard]] Result<void> expect_end();

  // The most bytes that the file can hold: its size, or for gzip 1032 times that (the limit of the format). Used to
  // refuse absurd headers before memory is allocated for them.
  [[nodiscard]] std::uint64_t most_bytes() const;

 private:
  struct State;
  explicit ByteStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace autotuned
