// SPDX-License-Identifier: Apache-2.0
#include "base/process/resident_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <functional>
#include <limits>
#include <stdexcept>

namespace autotuned {
namespace {

constexpr std::int64_t kMany = std::int64_t{64} << 20U;
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

// Takes memory from the kernel directly, so that a sanitizer's allocator keeps out of it.
void hold(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ::_exit(1);
  for (std::size_t at = 0; at < size; at += 4096)
    static_cast<char*>(memory)[at] = 1;
}

// A leader that does `work`, tells that it has, and waits for its end; its children end with it.
class Group {
 public:
  explicit Group(const std::function<void(const std::function<void()>&)>& work) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    leader_ = ::fork();
    if (leader_ == 0) {
      ::setpgid(0, 0);
      work([&] { tell(ends[1]); });
      tell(ends[1]);
      // A child that ends without a word must not leave the test waiting.
      ::close(ends[1]);
      for (;;)
        ::pause();
    }
    ::close(ends[1]);
    told_ = ends[0];
  }
  ~Group() {
    ::kill(-leader_, SIGKILL);
    ::waitpid(leader_, nullptr, 0);
    ::close(told_);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Until so many have told that they are ready.
  void wait_for(int processes) const {
    char told = 0;
    for (int i = 0; i < processes; ++i)
      ASSERT_EQ(::read(told_, &told, 1), 1);
  }
  [[nodiscard]] pid_t leader() const { return leader_; }

  // In the leader: a child that does `work` and stays.
  static void start_child(const std::function<void()>& work, const std::function<void()>& tell) {
    if (::fork() != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    tell();
    for (;;)
      ::pause();
  }

 private:
  static void tell(int to) {
    if (::write(to, "", 1) != 1) ::_exit(1);
  }
  pid_t leader_ = -1;
  int told_ = -1;
};

TEST(ResidentBytes, AreThoseOfAProcess) {
  EXPECT_GT(resident_bytes(::getpid()), 0);
  EXPECT_EQ(resident_bytes(0), 0);
}

TEST(ResidentGroup, CountsWhatChildrenHold) {
  const Group group([](const std::function<void()>& tell) {
    Group::start_child([] { hold(kMany); }, tell);
    Group::start_child([&] { Group::start_child([] { hold(kMany); }, tell); }, tell);
  });
  group.wait_for(4);
  ResidentGroup held(group.leader());
  EXPECT_GE(held.held_bytes(kAny), 2 * kMany);
  EXPECT_EQ(held.processes(), 4);
  // Counted exactly it is as much, since they share nothing of it.
  EXPECT_GE(held.held_bytes(0), 2 * kMany);
}

TEST(ResidentGroup, CountsAPageThatIsSharedOnceWhereItMatters) {
  const Group group([](const std::function<void()>& tell) {
    hold(kMany);
    for (int i = 0; i < 3; ++i)
      Group::start_child([] {}, tell);
  });
  group.wait_for(4);
  ResidentGroup held(group.leader());
  const std::int64_t counted_for_each = held.held_bytes(kAny);
  EXPECT_GE(counted_for_each, 4 * kMany);
  const std::int64_t exact = held.held_bytes(kMany);
  EXPECT_GE(exact, kMany);
  // Each of the four has something of its own, too, with a sanitizer more of it.
  EXPECT_LT(exact, counted_for_each - 5 * kMany / 2);
}

TEST(ResidentGroup, LeavesOutWhoHasLeft) {
  const Group group([](const std::function<void()>& tell) {
    Group::start_child(
        [] {
          ::setsid();
          hold(kMany);
        },
        tell);
  });
  group.wait_for(2);
  ResidentGroup held(group.leader());
  EXPECT_LT(held.held_bytes(kAny), resident_bytes(group.leader()) + kMany / 2);
  EXPECT_EQ(held.processes(), 1);
}

TEST(ResidentGroup, HoldsNothingWhenItIsGone) {
  pid_t leader = -1;
  {
    const Group group([](const auto&) {});
    group.wait_for(1);
    leader = group.leader();
  }
  EXPECT_EQ(ResidentGroup(leader).held_bytes(kAny), 0);
}

}  // namespace
}  // namespace autotuned
