// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/lost_rank_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace autotuned::trainer {

LostRankWatch::LostRankWatch(std::vector<Tie> ties, std::function<void()> end_exchange,
                             std::chrono::milliseconds limit, std::function<void()> end_process)
    : ties_(std::move(ties)),
      end_exchange_(std::move(end_exchange)),
      limit_(limit),
      end_process_(std::move(end_process)),
      over_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this] { look(); }) {}

LostRankWatch::~LostRankWatch() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(over_.get(), &one, sizeof one);
  thread_.join();
}

void LostRankWatch::joined() {
  {
    const std::scoped_lock lock(mutex_);
    is_joined_ = true;
  }
  changed_.notify_all();
}

std::string LostRankWatch::lost() const {
  const std::scoped_lock lock(mutex_);
  return lost_;
}

void LostRankWatch::look() {
  std::vector<pollfd> polled;
  for (const Tie& tie : ties_)
    polled.push_back({.fd = tie.connection, .events = POLLIN, .revents = 0});
  polled.push_back({.fd = over_.get(), .events = POLLIN, .revents = 0});
  while (::poll(polled.data(), polled.size(), -1) < 0) {
    if (errno != EINTR) return;
  }
  if (polled.back().revents != 0) return;
  for (std::size_t i = 0; i < ties_.size(); ++i)
    if (polled[i].revents != 0) return lose(ties_[i].rank);
}

void LostRankWatch::lose(const std::string& rank) {
  {
    const std::scoped_lock lock(mutex_);
    lost_ = rank;
  }
  std::thread ending([this] {
    end_exchange_();
    const std::scoped_lock lock(mutex_);
    has_ended_exchange_ = true;
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  const bool is_in_time = changed_.wait_for(
      lock, limit_, [this] { return has_ended_exchange_ && (is_joined_ || is_over_); });
  lock.unlock();
  if (!is_in_time) {
    std::fputs((rank + " has left, and the exchange with it could not be ended\n").c_str(), stderr);
    end_process_();
  }
  ending.join();
}

// Without exit handlers, which would wait for the device.
void LostRankWatch::end_this_process() {
  ::_exit(1);
}

}  // namespace autotuned::trainer
