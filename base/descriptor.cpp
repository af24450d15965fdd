// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>

namespace autotuned {

void Descriptor::reset(int fd) {
  const int held = std::exchange(fd_, fd);
  if (held < 0 || held == fd) return;
  const int saved = errno;
  ::close(held);
  errno = saved;
}

Result<SocketPair> socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return tl::unexpected(system_error(errno, "cannot make a pair of sockets"));
  }
  return SocketPair{Descriptor(ends[0]), Descriptor(ends[1])};
}

bool wait_readable(int fd, std::chrono::nanoseconds timeout) {
  using std::chrono::nanoseconds;
  using SteadyClock = std::chrono::steady_clock;
  constexpr nanoseconds kLongest = std::chrono::hours(24 * 365);
  const auto deadline = SteadyClock::now() + std::min(timeout, kLongest);
  pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
  while (true) {
    timespec left{};
    if (timeout >= nanoseconds::zero()) {
      const nanoseconds rest =
          std::max(nanoseconds::zero(), nanoseconds(deadline - SteadyClock::now()));
      left.tv_sec = static_cast<time_t>(rest.count() / 1'000'000'000);
      left.tv_nsec = static_cast<long>(rest.count() % 1'000'000'000);
    }
    const int ready = ::ppoll(&waited, 1, timeout < nanoseconds::zero() ? nullptr : &left, nullptr);
    if (ready == 0) return false;
    // An error other than EINTR shows in the read that follows.
    if (ready > 0 || errno != EINTR) return true;
  }
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace autotuned
