// SPDX-License-Identifier: Apache-2.0
#include "base/process/trainer_end.hpp"

#include <gtest/gtest.h>

#include "base/machine/cgroup.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

TEST(TrainerEnd, EvidenceComesBack) {
  TrainerEnd end{.outcome = TrainerOutcome::out_of_host_memory,
                 .request = "run",
                 .signal = 9,
                 .oom_kills = 1,
                 .resident_bytes = 3 << 20};
  TrainerEnd back{.outcome = *trainer_outcome_from("out_of_host_memory")};
  back.take_evidence(end.evidence());
  EXPECT_EQ(back.evidence(), end.evidence());
  EXPECT_EQ(back.text(),
            "out_of_host_memory during 'run': signal 9 (Killed), processes killed by the kernel "
            "for lack of memory: 1, memory used: 3.0 MiB");
  TrainerEnd exited{.outcome = TrainerOutcome::exited, .request = "load", .exit_code = 7};
  EXPECT_EQ(exited.text(), "exited during 'load': exit code 7");
  EXPECT_EQ((TrainerEnd{.outcome = TrainerOutcome::hung, .request = "run"}).text(),
            "hung during 'run': autotuned ended it");
  EXPECT_FALSE(trainer_outcome_from("another"));
}

TEST(OomKills, AreThoseOfOurGroupWhereItCounts) {
  const TemporaryFolder root;
  const std::string place = root.path().string();
  EXPECT_EQ(OomKills(place).count(), 0) << "nothing counts them";
  root.write("proc/vmstat", "pgfault 5\noom_kill 7\n");
  EXPECT_EQ(OomKills(place).count(), 7);
  root.write("proc/self/cgroup", "0::/user.slice/job\n");
  root.write("proc/self/mountinfo",
             "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  EXPECT_EQ(OomKills(place).count(), 7) << "the group has no such file";
  root.write("sys/fs/cgroup/user.slice/job/memory.events",
             "low 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n");
  const OomKills kills(place);
  EXPECT_EQ(kills.count(), 1);
  root.write("sys/fs/cgroup/user.slice/job/memory.events", "oom 3\noom_kill 2\n");
  EXPECT_EQ(kills.count(), 2);
}

TEST(OomKills, AreFoundInVersion1Too) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "5:memory:/job\n");
  root.write("proc/self/mountinfo",
             "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  root.write("sys/fs/cgroup/memory/job/memory.oom_control",
             "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  EXPECT_EQ(OomKills(root.path().string()).count(), 4);
}

}  // namespace
}  // namespace autotuned
