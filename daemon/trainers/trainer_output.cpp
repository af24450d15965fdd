// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/common/bounded_log.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 10U;
// The most bytes that are read after the trainer's end, more than a pipe holds: a process that goes on printing is not
// read for ever.
constexpr std::size_t kMaxAfterwards = std::size_t{256} << 10U;

void keep(const Descriptor& pipe, const Descriptor& going_on, BoundedLog& log) {
  std::array<char, kChunkBytes> chunk{};
  std::size_t rest = kMaxAfterwards;
  for (;;) {
    std::array<pollfd, 2> polled{{{pipe.get(), POLLIN, 0}, {going_on.get(), POLLIN, 0}}};
    if (::poll(polled.data(), polled.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    const bool is_over = polled[1].revents != 0;
    if (polled[0].revents == 0) return;  // nothing is left
    const ssize_t count = ::read(pipe.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // nobody can write any more
    const auto bytes = static_cast<std::size_t>(count);
    try {
      log.append(std::string_view(chunk.data(), bytes));
    } catch (const std::bad_alloc&) {
      // These lines are lost. To stop reading would end the trainer.
    }
    if (!is_over) continue;
    if (bytes >= rest) return;
    rest -= bytes;
  }
}

// The thread must not take signals that are meant for the one that waits for them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

Result<void> make_room(const std::filesystem::path& file) {
  std::error_code ignored;  // usually there is none
  std::filesystem::rename(file, file.string() + ".1", ignored);
  // The file is still there if .1 is a link to the same file, or a folder.
  std::filesystem::remove(file, ignored);
  // Made here, so that it is no link to a file of somebody.
  const Descriptor made(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (made.is_open()) return {};
  return tl::unexpected(system_error(errno, "cannot open the log of a trainer", file.string()));
}

}  // namespace

Result<TrainerOutput> TrainerOutput::start(const std::filesystem::path& file) {
  if (auto made = make_room(file); !made) return tl::unexpected(made.error());
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return tl::unexpected(system_error(errno, "cannot make a pipe"));
  }
  TrainerOutput output;
  output.writing_.reset(ends[1]);
  Descriptor reading(ends[0]);
  auto sockets = socket_pair();
  if (!sockets) return tl::unexpected(sockets.error());
  output.going_on_ = std::move(sockets->ours);
  try {
    const SignalsBlocked blocked;
    output.thread_ = std::thread([pipe = std::move(reading), going_on = std::move(sockets->theirs),
                                  log = BoundedLog(file)]() mutable { keep(pipe, going_on, log); });
  } catch (const std::system_error& error) {
    return tl::unexpected(
        system_error(error.code().value(), "cannot start a thread for what a trainer prints"));
  }
  return output;
}

TrainerOutput& TrainerOutput::operator=(TrainerOutput&& other) noexcept {
  if (this != &other) {
    finish();
    writing_ = std::move(other.writing_);
    going_on_ = std::move(other.going_on_);
    thread_ = std::move(other.thread_);
  }
  return *this;
}

void TrainerOutput::finish() {
  writing_.reset();
  going_on_.reset();
  if (thread_.joinable()) thread_.join();
}

}  // namespace autotuned::daemon
