// SPDX-License-Identifier: Apache-2.0
#include "base/process/process_family.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <utility>

#include "base/process/process.hpp"

namespace autotuned {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr nanoseconds kLong = seconds(60);

// A leader and what it has left, which has gone as far as `mode` says and said so on `line`.
struct LeftFamily {
  Process leader;
  Descriptor line;  // ends with what is left
};

LeftFamily start_family(const std::string& mode) {
  SocketPair pair = socket_pair().value();
  ProcessSpec spec;
  spec.program = AUTOTUNED_TEST_CHILD;
  spec.arguments = {mode};
  spec.environment = {"MARK=f"};
  spec.descriptors = {{pair.theirs.get(), 3}};
  LeftFamily family{Process::start(spec).value(), std::move(pair.ours)};
  pair.theirs.reset();
  char ready = 0;
  EXPECT_EQ(::read(family.line.get(), &ready, 1), 1);
  return family;
}

// A shell that runs `script`; its number there is $$, and stays so.
Process shell(const std::string& script, const std::string& mark) {
  ProcessSpec spec;
  spec.program = "/bin/sh";
  spec.arguments = {"-c", script};
  spec.environment = {"PATH=/usr/bin:/bin", mark};
  return Process::start(spec).value();
}

// Waits for ever if nothing is used: the limit of the test ends it.
void wait_for_use(ProcessFamily& family) {
  while (family.cpu_time_since_last_look() == nanoseconds{0}) {
  }
}

// The signal takes a moment to arrive.
void wait_until_stopped(pid_t process) {
  for (std::string state; state != "T";) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string number;
    std::string name;
    file >> number >> name >> state;
  }
}

const std::string kSpin = "while :; do :; done";
const std::string kSpinBeside =
    "while [ -d /proc/$$ ]; do :; done";  // as long as the leader is there

TEST(ProcessFamily, CountsTheLeader) {
  const Process process = shell(kSpin, "MARK=a");
  ProcessFamily family(process.pid(), "");
  EXPECT_EQ(family.cpu_time_since_last_look().count(), 0) << "the first look";
  wait_for_use(family);
}

TEST(ProcessFamily, CountsAChildInASessionOfItsOwn) {
  const Process process = shell("setsid sh -c \"" + kSpinBeside + "\" & exec sleep 600", "MARK=b");
  ProcessFamily family(process.pid(), "");
  wait_for_use(family);
}

// The orphan has left the group and has another parent: only its environment tells.
TEST(ProcessFamily, CountsAnOrphanByItsMark) {
  const std::string script = "(setsid sh -c \"" + kSpinBeside + "\" &); exec sleep 600";
  Process process = shell(script, "MARK=c");
  ProcessFamily family(process.pid(), "MARK=c");
  wait_for_use(family);
  // Not that the leader did it.
  ::kill(process.pid(), SIGSTOP);  // not its group, which the orphan may still be leaving
  wait_for_use(family);
}

// Nor its environment does: only that the leader has adopted it.
TEST(ProcessFamily, CountsAnOrphanThatHidesItsEnvironment) {
  const LeftFamily left = start_family("hidden-spinner");
  ProcessFamily family(left.leader.pid(), "MARK=f");
  wait_for_use(family);
}

// Once the leader has ended, only who looked before knows whose it is.
TEST(ProcessFamily, EndsWhatOutlivesTheLeader) {
  LeftFamily left = start_family("hidden-sleeper");
  ProcessFamily family(left.leader.pid(), "MARK=f");
  family.look();
  left.leader.terminate(nanoseconds{0});
  EXPECT_EQ(family.end_rest(nanoseconds{0}, kLong).size(), 1U);
  char none = 0;
  EXPECT_EQ(::read(left.line.get(), &none, 1), 0) << "it has ended";
  EXPECT_TRUE(family.end_rest(nanoseconds{0}, kLong).empty());
}

TEST(ProcessFamily, EndsAnOrphanByItsMark) {
  SocketPair pair = socket_pair().value();
  ProcessSpec spec;
  spec.program = "/bin/sh";
  spec.arguments = {"-c", "(setsid sh -c 'echo >&3; exec sleep 600' &); exec sleep 600"};
  spec.environment = {"PATH=/usr/bin:/bin", "MARK=g"};
  spec.descriptors = {{pair.theirs.get(), 3}};
  Process leader = Process::start(spec).value();
  pair.theirs.reset();
  char ready = 0;
  ASSERT_EQ(::read(pair.ours.get(), &ready, 1), 1);
  ProcessFamily family(leader.pid(), "MARK=g");
  leader.terminate(nanoseconds{0});
  EXPECT_EQ(family.end_rest(nanoseconds{0}, kLong).size(), 1U);
}

TEST(ProcessFamily, LetsEndByItselfWhatEndsSoon) {
  LeftFamily left = start_family("hidden-spinner");
  ProcessFamily family(left.leader.pid(), "MARK=f");
  family.look();
  left.leader.terminate(nanoseconds{0});
  EXPECT_TRUE(family.end_rest(kLong, kLong).empty());
}

TEST(ProcessFamily, CountsNothingOfAStoppedGroupOrOfStrangers) {
  Process waiting = shell(kSpin, "MARK=d");
  const Process stranger = shell(kSpin, "MARK=e");
  ProcessFamily family(waiting.pid(), "MARK=d");
  ProcessFamily others(stranger.pid(), "MARK=e");
  wait_for_use(family);
  waiting.signal_group(SIGSTOP);
  wait_until_stopped(waiting.pid());
  (void)family.cpu_time_since_last_look();  // what it used until then
  wait_for_use(others);
  EXPECT_EQ(family.cpu_time_since_last_look().count(), 0);
  waiting.signal_group(SIGCONT);
  wait_for_use(family);
}

}  // namespace
}  // namespace autotuned
