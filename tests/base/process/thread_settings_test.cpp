// SPDX-License-Identifier: Apache-2.0
#include "base/process/thread_settings.hpp"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

#include "base/file.hpp"
#include "base/process/process.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

// --- What a thread says of itself ---

constexpr const char* kStat =
    "12 (a) S (b)) S 1 12 12 0 -1 4194560 100 0 0 0 5 6 0 0 20 -3 4 0 98765 1000000 200 "
    "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 41 2 0 0 0 0 0 0 0 0 0 0 0\n";
constexpr const char* kStatus =
    "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-2,7\nMems_allowed:\t1\n";

TEST(ThreadSettings, AreReadFromTheTextOfAThread) {
  const auto read = parse_thread(kStat, kStatus);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->start_ticks, 98765);
  EXPECT_EQ(read->settings.niceness, -3);
  EXPECT_EQ(read->settings.real_time_priority, 41);
  EXPECT_EQ(read->settings.policy, SCHED_RR);
  EXPECT_EQ(read->settings.cpus, "0-2,7");
  EXPECT_FALSE(read->is_ending);
}

TEST(ThreadSettings, AThreadThatEndsSaysSo) {
  const std::string stat = kStat;
  std::string zombie = stat;
  zombie.replace(zombie.find(") S 1"), 5, ") Z 1");
  EXPECT_TRUE(parse_thread(zombie, kStatus)->is_ending);
  std::string exiting = stat;
  exiting.replace(exiting.find("4194560"), 7, "4194564");
  EXPECT_TRUE(parse_thread(exiting, kStatus)->is_ending);
}

TEST(ThreadSettings, TextThatLacksAValueIsRefused) {
  EXPECT_FALSE(parse_thread("", kStatus));
  EXPECT_FALSE(parse_thread("12 (a) S 1 12", kStatus));
  EXPECT_FALSE(parse_thread(kStat, "Name:\tx\n"));
}

// --- What has changed ---

constexpr ThreadId kMain{.process = 10, .thread = 10, .start_ticks = 5};
constexpr ThreadId kWorker{.process = 10, .thread = 11, .start_ticks = 6};

GroupSettings two_threads() {
  const ThreadSettings settings{.cpus = "0-3", .groups = ""};
  return {{kMain, settings}, {kWorker, settings}};
}

TEST(ThreadSettings, ThatStayAreNoChange) {
  EXPECT_EQ(changed_settings(two_threads(), two_threads()), "");
}

TEST(ThreadSettings, AChangeNamesEachValueAndTheNumberOfThreads) {
  GroupSettings now = two_threads();
  for (auto& [id, settings] : now) {
    settings.policy = SCHED_IDLE;
    settings.niceness = 19;
    settings.cpus = "0";
  }
  EXPECT_EQ(
      changed_settings(two_threads(), now),
      "scheduling policy (SCHED_OTHER to SCHED_IDLE), niceness (0 to 19), allowed CPUs (0-3 to 0), "
      "in 2 threads");
}

TEST(ThreadSettings, AChangeOfOneThreadIsFound) {
  GroupSettings now = two_threads();
  now.at(kWorker).io_priority = 7;
  EXPECT_EQ(changed_settings(two_threads(), now), "I/O priority (0 to 7), in 1 thread");
  now = two_threads();
  now.at(kMain).groups = "0::/slow\n";
  EXPECT_EQ(changed_settings(two_threads(), now), "cgroup or autogroup, in 1 thread");
  now = two_threads();
  now.at(kMain).real_time_priority = 1;
  EXPECT_EQ(changed_settings(two_threads(), now), "real-time priority (0 to 1), in 1 thread");
}

TEST(ThreadSettings, CpusMayBeLeftOut) {
  GroupSettings now = two_threads();
  now.at(kMain).cpus = "0";
  EXPECT_EQ(changed_settings(two_threads(), now, CpusCount::no), "");
  now.at(kMain).niceness = 1;
  EXPECT_EQ(changed_settings(two_threads(), now, CpusCount::no), "niceness (0 to 1), in 1 thread");
}

// A number that is used again is another thread.
TEST(ThreadSettings, ThreadsThatCameOrWentAreNoChange) {
  GroupSettings now = two_threads();
  auto worker = now.extract(kWorker);
  worker.key().start_ticks = 9;
  worker.mapped().niceness = 5;
  now.insert(std::move(worker));
  EXPECT_EQ(changed_settings(two_threads(), now), "");
}

// --- Which of two is more urgent ---

TEST(ThreadSettings, GroupsAreAsUrgentAsTheirMostUrgentThread) {
  GroupSettings other = two_threads();
  EXPECT_EQ(unequal_urgency(two_threads(), other), "");
  other.at(kWorker).niceness = 10;
  EXPECT_EQ(unequal_urgency(two_threads(), other), "") << "it gives way";
  other.at(kWorker).niceness = -5;
  EXPECT_EQ(unequal_urgency(two_threads(), other),
            "SCHED_OTHER with niceness 0 and SCHED_OTHER with niceness -5");
  other.at(kMain).policy = SCHED_FIFO;
  other.at(kMain).real_time_priority = 2;
  EXPECT_EQ(unequal_urgency(other, two_threads()),
            "SCHED_FIFO with priority 2 and SCHED_OTHER with niceness 0");
}

TEST(ThreadSettings, AnIdlePolicyIsTheLeastUrgent) {
  GroupSettings idle = two_threads();
  for (auto& [id, settings] : idle) {
    settings.policy = SCHED_IDLE;
    settings.niceness = -20;
  }
  EXPECT_EQ(unequal_urgency(idle, two_threads()),
            "SCHED_IDLE with niceness -20 and SCHED_OTHER with niceness 0");
}

TEST(ThreadSettings, AGroupThatHasEndedIsNotCompared) {
  EXPECT_EQ(unequal_urgency({}, two_threads()), "");
  EXPECT_EQ(unequal_urgency(two_threads(), {}), "");
}

// --- Real processes ---

// A child that waits, and a grandchild in its group.
struct Family {
  Process process;
  Descriptor line;
};

Family start_family() {
  SocketPair pair = socket_pair().value();
  ProcessSpec spec;
  spec.program = AUTOTUNED_TEST_CHILD;
  spec.arguments = {"grandchild-and-wait"};
  spec.descriptors = {{pair.theirs.get(), 3}};
  Family family{Process::start(spec).value(), std::move(pair.ours)};
  pair.theirs.reset();
  char byte = 0;
  EXPECT_EQ(::read(family.line.get(), &byte, 1), 1);
  return family;
}

TEST(ThreadSettings, OfAGroupAreThoseOfEachOfItsProcesses) {
  const Family family = start_family();
  const GroupSettings settings = settings_of_group(family.process.pid());
  EXPECT_GE(settings.size(), 2U);
  EXPECT_FALSE(settings.contains({}));
  EXPECT_EQ(changed_settings(settings, settings_now(settings)), "");
  for (const auto& [id, thread] : settings) {
    EXPECT_EQ(thread.policy, ::sched_getscheduler(id.thread));
    EXPECT_EQ(thread.niceness, ::getpriority(PRIO_PROCESS, static_cast<id_t>(id.thread)));
    EXPECT_FALSE(thread.cpus.empty());
  }
}

// A thread may be in another cgroup than its process.
TEST(ThreadSettings, GroupsAreReadOfEachThread) {
  const auto groups = read_file("/proc/self/cgroup", std::size_t{64} << 10U);
  if (!groups || groups->empty()) GTEST_SKIP() << "this kernel has no cgroups";
  std::atomic<bool> is_over = false;
  std::thread other([&is_over] { is_over.wait(false); });
  int threads = 0;
  for (const auto& [id, thread] : settings_of_group(::getpgrp())) {
    if (id.process != ::getpid()) continue;
    ++threads;
    EXPECT_TRUE(thread.groups.starts_with(*groups)) << thread.groups;
  }
  is_over = true;
  is_over.notify_one();
  other.join();
  EXPECT_GE(threads, 2);
}

// Both work without any privilege, also while the process is stopped.
TEST(ThreadSettings, AChangeFromOutsideShows) {
  Family family = start_family();
  family.process.signal_group(SIGSTOP);
  const GroupSettings before = settings_of_group(family.process.pid());
  ASSERT_GE(before.size(), 2U);
  const pid_t grandchild = before.rbegin()->first.process;

  cpu_set_t allowed{};
  ASSERT_EQ(::sched_getaffinity(grandchild, sizeof(allowed), &allowed), 0);
  if (CPU_COUNT(&allowed) > 1) {
    std::size_t first = 0;
    while (!CPU_ISSET(first, &allowed))
      ++first;
    cpu_set_t one{};
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(grandchild, sizeof(one), &one), 0);
    const std::string text = changed_settings(before, settings_now(before));
    EXPECT_THAT(text, HasSubstr("allowed CPUs (" + before.rbegin()->second.cpus + " to " +
                                std::to_string(first) + "), in 1 thread"));
  }

  const sched_param none{};
  const bool is_idle = ::sched_getscheduler(grandchild) == SCHED_IDLE;
  ASSERT_EQ(::sched_setscheduler(grandchild, is_idle ? SCHED_BATCH : SCHED_IDLE, &none), 0);
  EXPECT_THAT(changed_settings(before, settings_now(before), CpusCount::no),
              HasSubstr("scheduling policy (SCHED_"));
}

TEST(ThreadSettings, OfAProcessThatHasEndedAreLeftOut) {
  GroupSettings before;
  pid_t child = 0;
  {
    const Family family = start_family();
    child = family.process.pid();
    before = settings_of_group(child);
  }
  for (const auto& [id, settings] : settings_now(before))
    EXPECT_NE(id.process, child);
}

}  // namespace
}  // namespace autotuned
