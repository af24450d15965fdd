// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/file.hpp"
#include "daemon/common/installation_paths.hpp"

namespace autotuned::daemon {

namespace {

constexpr int kBacklog = 64;

struct Address {
  sockaddr_un value{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&value);  // as the interface wants it
  }
};

Result<Address> address_of(std::string_view path) {
  Address address;
  address.value.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.value.sun_path)) {
    return fail(ErrorKind::invalid,
                "the path of a socket may have at most " +
                    std::to_string(sizeof(address.value.sun_path) - 1) + " characters",
                std::string(path), "set XDG_RUNTIME_DIR to a folder with a shorter name");
  }
  std::ranges::copy(path, std::begin(address.value.sun_path));
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  // An abstract name is written with @ and has no end.
  if (path.front() == '@') {
    address.value.sun_path[0] = '\0';
  } else {
    ++address.length;
  }
  return address;
}

}  // namespace

Result<std::filesystem::path> socket_file() {
  auto folder = runtime_folder();
  if (!folder) return tl::unexpected(folder.error());
  return *folder / "daemon.sock";
}

Result<Listener> Listener::open(const std::filesystem::path& socket) {
  auto address = address_of(socket.native());
  if (!address) return tl::unexpected(address.error());
  auto lock = lock_file(socket.parent_path() / "daemon.lock",
                        "autotuned serve, process " + std::to_string(::getpid()), /*wait=*/false);
  if (!lock) {
    Error refusal = lock.error();
    if (refusal.kind == ErrorKind::busy) {
      refusal.what = "a daemon serves this user already: the socket is " + refusal.what;
      refusal.remedy = "use it, or end it with 'autotuned stop'";
    }
    return tl::unexpected(std::move(refusal));
  }
  if (::unlink(socket.c_str()) != 0 && errno != ENOENT) {
    return tl::unexpected(system_error(errno, "cannot replace the socket", socket.string()));
  }
  Descriptor descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!descriptor.is_open()) return tl::unexpected(system_error(errno, "cannot make a socket"));
  // Never anybody else's, not even for a moment.
  const mode_t mask = ::umask(0177);
  const int bound = ::bind(descriptor.get(), address->get(), address->length);
  const int reason = errno;
  ::umask(mask);
  if (bound != 0) {
    return tl::unexpected(system_error(reason, "cannot make the socket", socket.string()));
  }
  if (::listen(descriptor.get(), kBacklog) != 0) {
    return tl::unexpected(system_error(errno, "cannot listen", socket.string()));
  }
  return Listener(socket, *std::move(lock), std::move(descriptor));
}

void Listener::close() {
  if (lock_.is_open()) ::unlink(socket_.c_str());
  lock_.reset();
}

Result<std::optional<Descriptor>> connect_to_daemon(const std::filesystem::path& socket) {
  // Nobody can serve there.
  if (socket.native().size() >= sizeof(sockaddr_un::sun_path)) return std::nullopt;
  auto address = address_of(socket.native());
  if (!address) return tl::unexpected(address.error());
  Descriptor descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!descriptor.is_open()) return tl::unexpected(system_error(errno, "cannot make a socket"));
  int connected = 0;
  do {
    connected = ::connect(descriptor.get(), address->get(), address->length);
  } while (connected != 0 && errno == EINTR);
  if (connected != 0 && (errno == ENOENT || errno == ECONNREFUSED)) return std::nullopt;
  if (connected != 0) {
    return tl::unexpected(system_error(errno, "cannot reach the daemon", socket.string()));
  }
  if (peer_user(descriptor.get()) != ::getuid()) {
    return fail(ErrorKind::permission, "the daemon there is another user's", socket.string(),
                "set XDG_RUNTIME_DIR to a folder of yours");
  }
  return descriptor;
}

std::optional<uid_t> peer_user(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return std::nullopt;
  }
  return credentials.uid;
}

void notify_manager(std::string_view state) {
  const char* manager = std::getenv("NOTIFY_SOCKET");
  if (manager == nullptr) return;
  const auto address = address_of(manager);
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!address || !socket.is_open()) return;
  // Without a manager that listens the daemon serves as well.
  static_cast<void>(::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                             address->get(), address->length));
}

}  // namespace autotuned::daemon
