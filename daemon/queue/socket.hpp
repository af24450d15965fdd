// SPDX-License-Identifier: Apache-2.0
// The daemon's socket: its path, who may connect, and messages to a service manager.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// The path of the socket: daemon.sock in runtime_folder() (daemon/common/installation_paths.hpp), which only this user can write.
[[nodiscard]] Result<std::filesystem::path> socket_file();

// A socket (mode 0600) that this process alone listens on. The destructor removes it.
class Listener {
 public:
  // ErrorKind::busy says which process serves already. A socket that a killed daemon left is replaced:
  // that its lock is free is the proof that nobody listens.
  [[nodiscard]] static Result<Listener> open(const std::filesystem::path& socket);
  ~Listener() { close(); }
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) noexcept = default;

  // The listening descriptor, non-blocking; the caller owns it.
  [[nodiscard]] Descriptor take_descriptor() { return std::move(descriptor_); }
  // Removes the socket and lets go of the lock.
  void close();

 private:
  Listener(std::filesystem::path socket, Descriptor lock, Descriptor descriptor)
      : socket_(std::move(socket)), lock_(std::move(lock)), descriptor_(std::move(descriptor)) {}

  std::filesystem::path socket_;
  Descriptor lock_;
  Descriptor descriptor_;
};

// Connects. Nothing if no daemon listens there. ErrorKind::permission: another user's process does.
[[nodiscard]] Result<std::optional<Descriptor>> connect_to_daemon(
    const std::filesystem::path& socket);

// The user on the other end, as the kernel noted when it connected.
[[nodiscard]] std::optional<uid_t> peer_user(int socket);

// sd_notify(3): sends `state` to the manager that $NOTIFY_SOCKET names, if any.
void notify_manager(std::string_view state);

}  // namespace autotuned::daemon
