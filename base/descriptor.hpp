// SPDX-License-Identifier: Apache-2.0
// Ownership of a file descriptor.
#pragma once

#include <chrono>
#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace autotuned {

// Owns a file descriptor and closes it at the end of its life.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);  // closes the descriptor held before; keeps errno

 private:
  int fd_ = -1;
};

struct SocketPair {
  Descriptor ours;
  Descriptor theirs;
};

// Two connected Unix stream sockets, both close-on-exec (spawn() hands one over explicitly).
[[nodiscard]] Result<SocketPair> socket_pair();

// Waits until a read would not block, because there is data, an end or an error. Returns false after `timeout`; a negative
// one waits for ever. Signals do not end the wait.
[[nodiscard]] bool wait_readable(int fd, std::chrono::nanoseconds timeout);

// Writes all of `content`. Returns false, with errno set, if a part could not be written.
[[nodiscard]] bool write_all(int fd, std::string_view content);

}  // namespace autotuned
