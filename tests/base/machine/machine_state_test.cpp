// SPDX-License-Identifier: Apache-2.0
#include "base/machine/machine_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/machine/cgroup.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kMib = std::int64_t{1} << 20U;

// A machine of four CPUs, of which two are allowed: 1 and 3.
class MachineStateTest : public testing::Test {
 protected:
  MachineStateTest() {
    root_.write("proc/self/status", "Cpus_allowed_list:\t1,3\n");
    root_.write("proc/self/stat", stat(20, 1, 0));
    root_.write("proc/meminfo", "MemTotal: 1024 kB\nMemFree: 1 kB\nMemAvailable: 512 kB\n");
    set_swapped(0, 0);
    set_cpu_time(0, 0, 0);
    set_processes(0, 0, 0);
    for (const int cpu : {0, 1, 2, 3})
      set_governor(cpu, "performance");
  }

  static std::string ticks(double seconds) {
    return std::to_string(
        static_cast<std::int64_t>(seconds * static_cast<double>(::sysconf(_SC_CLK_TCK))));
  }
  // Half of the time as a user's, half of it of children that ended.
  static std::string stat(int process, int parent, double seconds) {
    const std::string half = ticks(seconds / 2);
    return std::to_string(process) + " (odd) name (x) S " + std::to_string(parent) +
           " 1 1 0 -1 4194304 100 0 0 0 " + half + " 0 " + half + " 0 20 0 1 0 100 0 0\n";
  }
  // Sets the times of each allowed CPU; the others do much that does not count.
  void set_cpu_time(double busy, double idle, double stolen) const {
    const std::string allowed =
        " 0 0 " + ticks(busy) + " " + ticks(idle) + " 0 0 0 " + ticks(stolen) + " 0 0\n";
    root_.write("proc/stat", "cpu 9 9 9 9 9 9 9 9 0 0\ncpu0 99999 0 0 0 0 0 0 99999 0 0\ncpu1" +
                                 allowed + "cpu2 99999 0 0 0 0 0 0 0 0 0\ncpu3" + allowed +
                                 "intr 5\n");
  }
  // Ourselves, a child, a child of that, and a stranger.
  void set_processes(double own, double child, double grandchild) const {
    root_.write("proc/20/stat", stat(20, 1, own));
    root_.write("proc/21/stat", stat(21, 20, child));
    root_.write("proc/22/stat", stat(22, 21, grandchild));
    root_.write("proc/23/stat", stat(23, 1, 500));
  }
  void set_swapped(int in, int out) const {
    root_.write("proc/vmstat", "nr_free_pages 7\npswpin " + std::to_string(in) + "\npswpout " +
                                   std::to_string(out) + "\n");
  }
  void set_governor(int cpu, const std::string& name) const {
    root_.write(folder(cpu) + "cpufreq/scaling_governor", name + "\n");
  }
  void set_heat(int cpu, int events) const {
    root_.write(folder(cpu) + "thermal_throttle/core_throttle_count", std::to_string(events));
  }
  static std::string folder(int cpu) {
    return "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
  }
  [[nodiscard]] MachineState look() const {
    return read_machine_state_below(root_.path().string());
  }
  // What ten seconds brought, in which the two CPUs were half idle and all else was ours.
  [[nodiscard]] std::vector<std::string> texts_since(const MachineState& before) const {
    std::vector<std::string> texts;
    for (const MachineFinding& finding : findings_between(before, look(), "GPU-0"))
      texts.push_back(finding.subject + ": " + finding.text);
    return texts;
  }

  TemporaryFolder root_;
};

TEST_F(MachineStateTest, FindsNothingOnAQuietMachine) {
  const MachineState before = look();
  EXPECT_THAT(findings_at(before, ""), IsEmpty());
  set_cpu_time(5, 5, 0);
  set_processes(1, 4, 5);
  EXPECT_NEAR(look().own_cpu_time, 10.0, 0.05);
  EXPECT_THAT(texts_since(before), IsEmpty());
}

TEST_F(MachineStateTest, OtherProcessesCanCountAsOwn) {
  set_processes(1, 4, 5);
  // One of them is a descendant as well, and one has ended.
  const MachineState state = read_machine_state_below(root_.path().string(), {23, 21, 99});
  EXPECT_NEAR(state.own_cpu_time, 510.0, 0.05);
}

TEST_F(MachineStateTest, NamesGovernorsThatLowerTheClocks) {
  set_governor(1, "powersave");
  set_governor(2, "ondemand");  // not ours
  const auto findings = findings_at(look(), "");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].subject, "clock");
  EXPECT_EQ(
      findings[0].text,
      "the CPU frequency governor is 'powersave' (1 CPU), so clocks and rates change with the "
      "load; `cpupower frequency-set -g performance` keeps clocks high");
}

TEST_F(MachineStateTest, NamesTheLoadOfOtherPrograms) {
  const MachineState before = look();
  set_cpu_time(9, 1, 0);
  set_processes(1, 4, 5);  // 10 of 18 seconds
  EXPECT_THAT(texts_since(before),
              ElementsAre("load: other programs used 0.8 of the 2 CPUs during the measurement, so "
                          "rates are lower and trials take longer or end without a verdict"));
  // The limit lies between 8 and 12 % of the 20 seconds of the two CPUs.
  ASSERT_EQ(kLoadThatMatters, 0.1);
  set_processes(2, 10, 4.4);
  EXPECT_THAT(texts_since(before), IsEmpty());
  set_processes(2, 10, 3.6);
  EXPECT_THAT(texts_since(before), ElementsAre(HasSubstr("load: ")));
}

TEST_F(MachineStateTest, MeasuresTheShareOfOtherWork) {
  const MachineState before = look();
  set_cpu_time(6, 2, 2);
  set_processes(1, 4, 5);  // 10 of 12 busy seconds are ours, and 4 of all 20 are another machine's
  EXPECT_NEAR(other_work_ratio(before, look()).value(), 0.3, 0.01);
  set_processes(2, 10, 5);  // more than all: clocks of the kernel are not exact
  set_cpu_time(6, 4, 0);
  EXPECT_EQ(other_work_ratio(before, look()), 0.0);
  EXPECT_EQ(other_work_ratio(before, before), std::nullopt) << "no time has passed";
  EXPECT_EQ(other_work_ratio(MachineState(), look()), std::nullopt);
}

TEST_F(MachineStateTest, NamesWhatTheHypervisorTook) {
  const MachineState before = look();
  set_cpu_time(5, 4, 1);
  set_processes(0, 10, 0);
  EXPECT_THAT(
      texts_since(before),
      ElementsAre("hypervisor: the hypervisor gave 10 % of the CPU time to other machines; a "
                  "dedicated machine gives steadier rates"));
}

TEST_F(MachineStateTest, NamesHeatAndSwap) {
  set_heat(1, 7);
  set_heat(3, 0);
  const MachineState before = look();
  set_cpu_time(5, 5, 0);
  set_processes(0, 10, 0);
  set_heat(1, 9);
  set_heat(0, 100);  // not ours
  const auto pages = static_cast<int>(3 * kMib / ::sysconf(_SC_PAGESIZE));
  set_swapped(pages, pages);
  EXPECT_THAT(texts_since(before),
              ElementsAre("heat: the temperature of CPUs slowed them down 2 times; check their "
                          "cooling",
                          "swap: 6.0 MiB were written to or read from swap, because the running "
                          "programs need more memory than the machine has"));
}

TEST_F(MachineStateTest, NamesAQuotaThatStopsProcesses) {
  root_.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root_.write("proc/self/cgroup", "0::/job\n");
  root_.write("sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nthrottled_usec 1000000\n");
  const MachineState before = look();
  set_cpu_time(5, 5, 0);
  set_processes(0, 10, 0);
  root_.write("sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nthrottled_usec 3500000\n");
  EXPECT_THAT(texts_since(before),
              ElementsAre("quota: the CPU quota of the control group stopped its processes for 2.5 "
                          "of 10.0 s, summed over its CPUs; use no more threads than the quota has "
                          "CPUs"));
}

TEST_F(MachineStateTest, CountsTheMemoryThatIsLeft) {
  EXPECT_EQ(look().memory_available_bytes, 512 * 1024);
  root_.write("proc/meminfo", "MemAvailable: 1048576 kB\n");
  root_.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root_.write("proc/self/cgroup", "0::/job\n");
  root_.write("sys/fs/cgroup/job/memory.max", std::to_string(100 * kMib));
  root_.write("sys/fs/cgroup/job/memory.current", std::to_string(90 * kMib));
  root_.write("sys/fs/cgroup/job/memory.stat",
              "anon 5\ninactive_file " + std::to_string(50 * kMib) + "\n");
  EXPECT_EQ(look().memory_available_bytes, 60 * kMib);
  root_.write("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(look().memory_available_bytes, 1024 * kMib);
}

TEST_F(MachineStateTest, KnowsNothingWhereThereIsNothing) {
  const TemporaryFolder empty;
  const MachineState state = read_machine_state_below(empty.path().string());
  EXPECT_FALSE(state.cpu_time || state.swapped_bytes || state.heat_events || state.quota_stops);
  EXPECT_EQ(state.memory_available_bytes, 0);
  EXPECT_THAT(findings_at(state, ""), IsEmpty());
  EXPECT_THAT(findings_between(state, state, ""), IsEmpty());
  // Nor in no time.
  EXPECT_THAT(texts_since(look()), IsEmpty());
}

TEST_F(MachineStateTest, NamesWhatDisturbsTheGpuOfTheJob) {
  MachineState before = look();
  before.gpus = {{.uuid = "GPU-0",
                  .name = "Fake",
                  .processes = 2,
                  .is_hot = true,
                  .slowed_by_power = std::chrono::seconds(7),
                  .slowed_by_heat = std::chrono::seconds(0)},
                 {.uuid = "GPU-1", .name = "Other", .processes = 9}};
  std::vector<std::string> texts;
  for (const MachineFinding& finding : findings_at(before, "GPU-0"))
    texts.push_back(finding.text);
  EXPECT_THAT(texts, ElementsAre("other processes already compute on Fake (processes: 2), so rates "
                                 "depend on their load; `nvidia-smi` lists them",
                                 "Fake is slowed down by its temperature; check its cooling"));
  EXPECT_THAT(findings_at(before, ""), IsEmpty());
  set_cpu_time(5, 5, 0);
  set_processes(0, 10, 0);
  MachineState after = look();
  after.gpus = before.gpus;
  after.gpus[0].slowed_by_power = std::chrono::seconds(10);
  const auto findings = findings_between(before, after, "GPU-0");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(
      findings[0].text,
      "Fake was slowed down by its power limit for 30 % of the time; `nvidia-smi -q -d POWER` "
      "shows the limit");
}

// What is not known is not "never": then what the last look sees must do.
TEST_F(MachineStateTest, ADriverThatDoesNotTellOfHeatIsAskedHowItIsNow) {
  MachineState before = look();
  before.gpus = {{.uuid = "GPU-0", .name = "Fake"}};
  set_cpu_time(5, 5, 0);
  set_processes(0, 10, 0);
  MachineState after = look();
  after.gpus = before.gpus;
  EXPECT_THAT(findings_between(before, after, "GPU-0"), IsEmpty());
  after.gpus[0].is_hot = true;
  const auto findings = findings_between(before, after, "GPU-0");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].subject, "GPU");
  EXPECT_EQ(findings[0].text,
            "Fake is slowed down by its temperature, and its driver does not report for how long; "
            "check its cooling");
}

TEST(MachineStateHere, CanBeRead) {
  const MachineState state = read_machine_state();
  EXPECT_GT(state.memory_available_bytes, 0);
  EXPECT_TRUE(state.cpu_time);
  EXPECT_GE(state.own_cpu_time, 0.0);
}

}  // namespace
}  // namespace autotuned
