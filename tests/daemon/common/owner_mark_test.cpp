// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/owner_mark.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "base/process/process.hpp"
#include "daemon/common/orphans.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::seconds;

// The mark of a process that has ended; nobody has asked yet how, if `is_zombie`.
class Ended {
 public:
  explicit Ended(bool is_zombie) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    child_ = ::fork();
    if (child_ == 0) {
      const std::string mark = own_mark();
      ::_exit(::write(ends[1], mark.data(), mark.size()) > 0 ? 0 : 1);
    }
    ::close(ends[1]);
    std::array<char, 200> text{};
    mark_.assign(text.data(), static_cast<std::size_t>(::read(ends[0], text.data(), text.size())));
    ::close(ends[0]);
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT), 0);
    if (!is_zombie) reap();
  }
  ~Ended() {
    if (child_ > 0) reap();
  }
  Ended(const Ended&) = delete;
  Ended& operator=(const Ended&) = delete;

  [[nodiscard]] const std::string& mark() const { return mark_; }

 private:
  void reap() {
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

  pid_t child_ = -1;
  std::string mark_;
};

Process sleeper(const std::string& mark) {
  ProcessSpec spec;
  spec.program = "/bin/sleep";
  spec.arguments = {"1000"};
  spec.environment = {"OTHER=1", std::string(kMarkVariable) + "=" + mark};
  return Process::start(spec).value();
}

TEST(OwnerMark, IsLeftBehindWhenItsProcessHasEnded) {
  EXPECT_FALSE(is_left_behind(own_mark()));
  EXPECT_TRUE(is_left_behind(Ended(/*is_zombie=*/false).mark()));
  const Ended zombie(/*is_zombie=*/true);
  EXPECT_TRUE(is_left_behind(zombie.mark()));
  const std::string number = std::to_string(::getpid());
  EXPECT_TRUE(is_left_behind("process-" + number + "-1")) << "another one had the number";
  for (const std::string& other : {std::string(), std::string("0123456789abcdef0123456789abcdef"),
                                   "process-" + number, "process-" + number + "-unknown",
                                   std::string("process--"), std::string("process-1/../2-3")})
    EXPECT_FALSE(is_left_behind(other)) << other;
}

TEST(OwnerMark, WhatIsLeftBehindIsEndedAndNothingElse) {
  const Ended ended(/*is_zombie=*/false);
  Process orphan = sleeper(ended.mark());
  Process ours = sleeper(own_mark());
  Process of_a_daemon = sleeper("0123456789abcdef0123456789abcdef");
  EXPECT_GE(end_left_behind(seconds(20)), 1U);
  const auto exit = orphan.wait(seconds(20));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->signal, SIGKILL);
  EXPECT_FALSE(ours.wait(seconds(0)));
  EXPECT_FALSE(of_a_daemon.wait(seconds(0)));
}

// A token that only begins or ends the same is another token.
TEST(OwnerMark, OwnProcessesAreEndedAndThoseOfOtherRunsAreNot) {
  Process ours = sleeper(own_mark());
  Process of_another = sleeper("x" + own_mark());
  Process longer = sleeper(own_mark() + "-x");
  Process of_a_daemon = sleeper("0123456789abcdef0123456789abcdef");
  EXPECT_EQ(end_own(seconds(20)), 1U);
  const auto exit = ours.wait(seconds(20));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->signal, SIGKILL);
  for (Process* other : {&of_another, &longer, &of_a_daemon})
    EXPECT_FALSE(other->wait(seconds(0)));
  EXPECT_EQ(end_own(seconds(0)), 0U);
}

// What is not ours to signal is not looked at, whatever it carries.
TEST(OwnerMark, ProcessesOfOtherUsersAreLeftAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const Ended ended(/*is_zombie=*/false);
  constexpr uid_t kNobody = 65534;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string mark = std::string(kMarkVariable) + "=" + ended.mark();
  const pid_t child = ::fork();
  if (child == 0) {
    // exec() gives /proc of the process to its new user.
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(1);
    ::dup2(ends[1], STDOUT_FILENO);
    std::string shell = "/bin/sh";
    std::string option = "-c";
    std::string text = "echo ready; exec sleep 1000";
    std::string variable = mark;
    std::array<char*, 4> arguments = {shell.data(), option.data(), text.data(), nullptr};
    std::array<char*, 2> environment = {variable.data(), nullptr};
    ::execve(shell.c_str(), arguments.data(), environment.data());
    ::_exit(1);
  }
  ::close(ends[1]);
  std::array<char, 16> text{};
  EXPECT_GT(::read(ends[0], text.data(), text.size()), 0);
  ::close(ends[0]);
  EXPECT_TRUE(processes_of({ended.mark()}).empty());
  static_cast<void>(end_left_behind(seconds(0)));
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "it was ended";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace autotuned::daemon
