// SPDX-License-Identifier: Apache-2.0
#include "base/process/process.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/base/environment_variable.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kNoLimit{-1};

ProcessSpec child(std::vector<std::string> arguments) {
  ProcessSpec spec;
  spec.program = AUTOTUNED_TEST_CHILD;
  spec.arguments = std::move(arguments);
  return spec;
}

// A child whose descriptor 3 is the other end of `line`.
struct Connected {
  Process process;
  Descriptor line;

  static Connected start(std::vector<std::string> arguments) {
    SocketPair pair = socket_pair().value();
    ProcessSpec spec = child(std::move(arguments));
    spec.descriptors = {{pair.theirs.get(), 3}};
    return {Process::start(spec).value(), std::move(pair.ours)};
  }
  [[nodiscard]] bool is_ready() const {
    char byte = 0;
    return ::read(line.get(), &byte, 1) == 1 && byte == 'r';
  }
  // Waits until everybody who held the other end is gone.
  [[nodiscard]] bool is_abandoned() const {
    char byte = 0;
    return ::read(line.get(), &byte, 1) == 0;
  }
};

// What a child prints when it is run to its end.
std::string output_of(ProcessSpec spec) {
  const TemporaryFolder folder;
  spec.log = folder / "log";
  Process process = Process::start(spec).value();
  EXPECT_EQ(process.wait(kNoLimit)->message(), "exit code 0");
  return folder.read("log");
}

// What was written last; empty when nothing was.
std::string read_line(const Descriptor& line) {
  std::string text(16, '\0');
  const ssize_t count = ::recv(line.get(), text.data(), text.size(), MSG_DONTWAIT);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return text;
}

TEST(Process, ReportsHowItEnded) {
  Process process = Process::start(child({"exit", "3"})).value();
  const auto ended = process.wait(kNoLimit);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->code, 3);
  EXPECT_EQ(ended->signal, 0);
  EXPECT_EQ(ended->message(), "exit code 3");
  EXPECT_EQ(process.wait(0ns)->code, 3);  // and again
}

TEST(Process, ReportsTheSignal) {
  // SIGTERM, not SIGSEGV: sanitizers catch that one.
  Process process = Process::start(child({"raise", std::to_string(SIGTERM)})).value();
  const auto ended = process.wait(kNoLimit);
  EXPECT_EQ(ended->signal, SIGTERM);
  EXPECT_EQ(ended->message(), "signal 15 (Terminated)");
  EXPECT_EQ((ProcessExit{.signal = SIGSEGV}).message(), "signal 11 (Segmentation fault)");
  EXPECT_EQ((ProcessExit{.signal = 4711}).message(), "signal 4711 (unknown)");
}

TEST(Process, AProgramThatCannotBeStartedIsAnError) {
  const TemporaryFolder folder;
  ProcessSpec spec;
  spec.program = folder / "missing";
  EXPECT_EQ(Process::start(spec).error().kind, ErrorKind::not_found);
  EXPECT_EQ(Process::start(spec).error().where, spec.program.string());
  spec.program = folder.write("text", "not a program");
  EXPECT_EQ(Process::start(spec).error().kind, ErrorKind::permission);
  ::chmod(spec.program.c_str(), 0700);
  EXPECT_EQ(Process::start(spec).error().kind, ErrorKind::unsupported);
  spec = child({"exit", "0"});
  spec.log = folder / "no" / "log";
  EXPECT_EQ(Process::start(spec).error().where, spec.log.string());
  spec = child({"exit", "0"});
  spec.descriptors = {{9999, 3}};
  EXPECT_FALSE(Process::start(spec).has_value());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
}

TEST(Process, ArgumentsArriveUnchanged) {
  EXPECT_EQ(output_of(child({"print", "a b", "", "$HOME;*", "ü\n"})),
            "out 6\n<a b>\n<>\n<$HOME;*>\n<ü\n>\nerr\n");
}

TEST(Process, TheEnvironmentIsTheListAlone) {
  ProcessSpec spec = child({"environment"});
  spec.environment = {"A=1", "EMPTY=", "WITH=a=b"};
  EXPECT_EQ(output_of(spec), "A=1\nEMPTY=\nWITH=a=b\n");
  spec.environment.clear();
  EXPECT_EQ(output_of(spec), "");
}

TEST(Process, TheLogIsAppendedToAndPrivate) {
  const TemporaryFolder folder;
  ProcessSpec spec = child({"print"});
  spec.log = folder / "log";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Process::start(spec).value().wait(kNoLimit)->code, 0);
  }
  EXPECT_EQ(folder.read("log"), "out 2\nerr\nout 2\nerr\n");
  struct stat status {};
  ASSERT_EQ(::stat(spec.log.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(Process, StandardInputIsEmpty) {
  Process process = Process::start(child({"input"})).value();
  EXPECT_EQ(process.wait(kNoLimit)->code, 0);
}

TEST(Process, OnlyTheNamedDescriptorsAreOpen) {
  // Ours, deliberately inheritable, at a low and at a high number.
  const Descriptor low(::open("/dev/null", O_RDONLY));
  const Descriptor high(::fcntl(low.get(), F_DUPFD, 200));
  EXPECT_EQ(output_of(child({"descriptors"})), "0\n1\n2\n");
  ProcessSpec spec = child({"descriptors"});
  spec.descriptors = {{low.get(), 3}, {high.get(), 150}};
  const Descriptor between(::fcntl(low.get(), F_DUPFD, 100));
  EXPECT_EQ(output_of(spec), "0\n1\n2\n3\n150\n");
}

TEST(Process, NumbersThatCollideAreSorted) {
  // Each source is the other's target, and one keeps its number.
  SocketPair first = socket_pair().value();
  SocketPair second = socket_pair().value();
  SocketPair third = socket_pair().value();
  const int a = first.theirs.get();
  const int b = second.theirs.get();
  const int c = third.theirs.get();
  ProcessSpec spec = child({"write", std::to_string(a), std::to_string(b), std::to_string(c)});
  spec.descriptors = {{a, b}, {b, a}, {c, c}};
  Process process = Process::start(spec).value();
  EXPECT_EQ(process.wait(kNoLimit)->code, 0);
  EXPECT_EQ(read_line(first.ours), std::to_string(b));
  EXPECT_EQ(read_line(second.ours), std::to_string(a));
  EXPECT_EQ(read_line(third.ours), std::to_string(c));
}

// Wanted numbers that are free here are where the copies made on the way could lie.
TEST(Process, NumbersThatAreFreeHereAreSorted) {
  SocketPair first = socket_pair().value();
  SocketPair second = socket_pair().value();
  const int free = Descriptor(::fcntl(0, F_DUPFD_CLOEXEC, 3)).get();
  ASSERT_GE(free, 3);
  for (int offset = 0; offset < 6; ++offset) {
    const int one = free + offset + 1;
    const int other = free + offset;
    ProcessSpec spec = child({"write", std::to_string(one), std::to_string(other)});
    spec.descriptors = {{first.theirs.get(), one}, {second.theirs.get(), other}};
    EXPECT_EQ(Process::start(spec).value().wait(kNoLimit)->code, 0);
    EXPECT_EQ(read_line(first.ours), std::to_string(one));
    EXPECT_EQ(read_line(second.ours), std::to_string(other));
  }
}

TEST(Process, SignalsAreAtTheirDefaults) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto handler = std::signal(SIGPIPE, SIG_IGN);
  const std::string output = output_of(child({"signals"}));
  std::signal(SIGPIPE, handler);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(output, "");
}

TEST(Process, HasAGroupOfItsOwnWhenAsked) {
  Connected own = Connected::start({"wait"});
  ASSERT_TRUE(own.is_ready());
  EXPECT_EQ(::getpgid(own.process.pid()), own.process.pid());
  ProcessSpec spec = child({"exit", "0"});
  spec.new_group = false;
  Process shared = Process::start(spec).value();
  EXPECT_EQ(::getpgid(shared.pid()), ::getpgrp());
}

TEST(Process, WaitGivesUpAndCanBeRepeated) {
  Connected started = Connected::start({"wait"});
  ASSERT_TRUE(started.is_ready());
  EXPECT_EQ(started.process.wait(0ns), std::nullopt);
  EXPECT_EQ(started.process.wait(1ms), std::nullopt);
  started.process.signal_group(SIGUSR1);
  EXPECT_EQ(started.process.wait(kNoLimit)->signal, SIGUSR1);
}

TEST(Process, ThePidfdTellsPollOfTheEnd) {
  Process process = Process::start(child({"exit", "0"})).value();
  pollfd waited{.fd = process.pidfd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waited, 1, -1), 1);
  EXPECT_TRUE(process.wait(0ns).has_value());
}

TEST(Process, TerminateAsksFirst) {
  Connected started = Connected::start({"exit-on-term"});
  ASSERT_TRUE(started.is_ready());
  const ProcessExit ended = started.process.terminate(1h);
  EXPECT_EQ(ended.code, 7);
  EXPECT_EQ(started.process.pid(), -1);
  EXPECT_EQ(started.process.wait(kNoLimit)->code, 7);
  EXPECT_EQ(started.process.terminate(1h).code, 7);
  started.process.signal_group(SIGTERM);  // nobody, in particular not our own group
}

TEST(Process, TerminateKillsTheDeaf) {
  Connected started = Connected::start({"ignore-term"});
  ASSERT_TRUE(started.is_ready());
  EXPECT_EQ(started.process.terminate(1ms).signal, SIGKILL);
  EXPECT_TRUE(started.is_abandoned());
}

// Stands for one in state D: a traced process stops on its way out, and no signal moves it.
TEST(Process, TerminateLeavesBehindWhatSigkillDoesNotEnd) {
  Connected started = Connected::start({"wait"});
  ASSERT_TRUE(started.is_ready());
  const pid_t pid = started.process.pid();
  if (::ptrace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACEEXIT) != 0) {
    GTEST_SKIP() << "tracing is not permitted here";
  }
  const ProcessExit ended = started.process.terminate(0ns, 1ms);
  EXPECT_TRUE(ended.is_left);
  EXPECT_EQ(ended.message(), "SIGKILL has not ended it yet");
  EXPECT_EQ(started.process.pid(), -1);
  EXPECT_TRUE(started.process.terminate(0ns).is_left);
  // It is still there, and ended as soon as the kernel lets go of it.
  EXPECT_EQ(::kill(pid, 0), 0);
  // Only one that has stopped can be let go.
  int status = 0;
  while (::waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
    ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

// A debugger, or the search for leaks of a sanitizer, which stops all threads to look at them.
TEST(Process, ADeadChildHasNotEndedWhileSomebodyTracesIt) {
  Connected started = Connected::start({"wait"});
  ASSERT_TRUE(started.is_ready());
  ASSERT_EQ(::fcntl(started.process.pidfd(), F_SETFL, O_NONBLOCK), 0);  // as Asio does
  SocketPair pair = socket_pair().value();
  const pid_t tracer = ::fork();
  ASSERT_GE(tracer, 0);
  if (tracer == 0) {
    ::close(pair.ours.release());
    char byte = ::ptrace(PTRACE_SEIZE, started.process.pid(), nullptr, nullptr) == 0 ? 'y' : 'n';
    if (::write(pair.theirs.get(), &byte, 1) == 1) (void)!::read(pair.theirs.get(), &byte, 1);
    ::_exit(0);
  }
  pair.theirs.reset();
  char is_traced = 'n';
  ASSERT_EQ(::read(pair.ours.get(), &is_traced, 1), 1);
  ASSERT_EQ(::kill(started.process.pid(), SIGKILL), 0);
  if (is_traced == 'y') {
    EXPECT_FALSE(started.process.wait(1ms));
  }
  pair.ours.reset();
  EXPECT_EQ(::waitpid(tracer, nullptr, 0), tracer);
  EXPECT_EQ(started.process.wait(kNoLimit)->signal, SIGKILL);
  if (is_traced != 'y') GTEST_SKIP() << "tracing is not permitted here";
}

TEST(Process, TerminateReachesGrandchildren) {
  Connected started = Connected::start({"grandchild-and-wait"});
  ASSERT_TRUE(started.is_ready());
  EXPECT_EQ(started.process.terminate(1h).signal, SIGTERM);
  EXPECT_TRUE(started.is_abandoned());
}

TEST(Process, TerminateReachesGrandchildrenOfAChildThatHasEnded) {
  Connected started = Connected::start({"grandchild-stays"});
  ASSERT_TRUE(started.is_ready());
  EXPECT_EQ(started.process.wait(kNoLimit)->code, 5);
  // Until then the group's number must not go to anybody else, so the child is still there.
  EXPECT_EQ(::kill(started.process.pid(), 0), 0);
  EXPECT_EQ(started.process.terminate(1h).code, 5);
  EXPECT_TRUE(started.is_abandoned());
}

TEST(Process, WithoutAGroupOnlyTheChildIsEnded) {
  SocketPair pair = socket_pair().value();
  ProcessSpec spec = child({"wait"});
  spec.new_group = false;
  spec.descriptors = {{pair.theirs.get(), 3}};
  Process process = Process::start(spec).value();
  EXPECT_EQ(process.terminate(1h).signal, SIGTERM);  // and the test lives on
}

TEST(Process, TheDestructorEndsTheGroupAndReaps) {
  pid_t pid = -1;
  Descriptor line;
  {
    Connected started = Connected::start({"grandchild-and-wait"});
    ASSERT_TRUE(started.is_ready());
    pid = started.process.pid();
    line = std::move(started.line);
  }
  char byte = 0;
  EXPECT_EQ(::read(line.get(), &byte, 1), 0);
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Process, MovesWithoutEndingAndEndsWhatItReplaces) {
  Connected first = Connected::start({"wait"});
  Connected second = Connected::start({"wait"});
  ASSERT_TRUE(first.is_ready());
  ASSERT_TRUE(second.is_ready());
  Process moved = std::move(first.process);
  EXPECT_EQ(first.process.pid(), -1);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved.wait(0ns), std::nullopt);
  moved = std::move(second.process);
  EXPECT_TRUE(first.is_abandoned());
  EXPECT_EQ(moved.wait(0ns), std::nullopt);
}

TEST(Process, WorksWhereSigchldWasIgnored) {
  const auto handler = std::signal(SIGCHLD, SIG_IGN);
  Process process = Process::start(child({"exit", "4"})).value();
  EXPECT_EQ(process.wait(kNoLimit)->code, 4);
  std::signal(SIGCHLD, handler);
}

TEST(Process, ManyAtOnceLeaveNoDescriptorsBehind) {
  const Descriptor before(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (int i = 0; i < 20; ++i) {
    Process process = Process::start(child({"exit", "0"})).value();
    if (i % 2 == 0) (void)process.wait(kNoLimit);
  }
  const Descriptor after(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(after.get(), before.get() + 1);
}

TEST(DieWithParent, EndsWithTheParent) {
  Connected started = Connected::start({"parent-of-loyal-child"});
  ASSERT_TRUE(started.is_ready());
  ::kill(started.process.pid(), SIGKILL);
  EXPECT_TRUE(started.is_abandoned());
}

TEST(DieWithParent, LeavesAtOnceWhenTheParentIsGone) {
  Process process = Process::start(child({"orphan"})).value();
  EXPECT_EQ(process.wait(kNoLimit)->code, EXIT_FAILURE);
}

TEST(ProgramInPath, IsTheFirstThatCanBeStarted) {
  const TemporaryFolder folder;
  for (const char* name : {"one/tool", "two/tool", "two/other"})
    ::chmod(folder.write(name, "").c_str(), 0755);
  ::chmod((folder / "one/tool").c_str(), 0644);
  std::filesystem::create_directory(folder / "one/other");
  const std::string path = (folder / "one").string() + ":" + (folder / "gone").string() + ":" +
                           (folder / "two").string();
  const EnvironmentVariable variable("PATH", path.c_str());
  EXPECT_EQ(program_in_path("tool"), folder / "two/tool");
  EXPECT_EQ(program_in_path("other"), folder / "two/other") << "not the folder";
  EXPECT_EQ(program_in_path("none"), "");
}

TEST(EnvironmentOf, TakesWhatIsSet) {
  ::setenv("AUTOTUNED_TEST_A", "x=y", 1);
  ::setenv("AUTOTUNED_TEST_B", "", 1);
  ::unsetenv("AUTOTUNED_TEST_C");
  EXPECT_EQ(environment_of({"AUTOTUNED_TEST_A", "AUTOTUNED_TEST_C", "AUTOTUNED_TEST_B"}),
            (std::vector<std::string>{"AUTOTUNED_TEST_A=x=y", "AUTOTUNED_TEST_B="}));
  EXPECT_THAT(whole_environment(),
              testing::IsSupersetOf({"AUTOTUNED_TEST_A=x=y", "AUTOTUNED_TEST_B="}));
}

}  // namespace
}  // namespace autotuned
