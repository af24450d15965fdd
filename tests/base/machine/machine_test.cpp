// SPDX-License-Identifier: Apache-2.0
#include "base/machine/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/machine/cgroup.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kGib = std::int64_t{1} << 30U;

constexpr const char* kUnified =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kVersionOne =
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

// A machine of eight CPUs, two threads a core, 16 GiB, without control groups.
class MachineTest : public testing::Test {
 protected:
  MachineTest() {
    std::string cpuinfo;
    for (int cpu = 0; cpu < 8; ++cpu) {
      cpuinfo += "processor\t: " + std::to_string(cpu) +
                 "\nmodel name\t: Some CPU @ 2.0GHz: fast\n"
                 "flags\t\t: fpu sse2 avx2 f16c avx512f avx512_bf16 avx512_vnni avx2\n\n";
      const int core = cpu / 2 * 2;
      root_.write(
          "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
          std::to_string(core) + "-" + std::to_string(core + 1) + "\n");
    }
    root_.write("proc/cpuinfo", cpuinfo);
    root_.write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
    root_.write("proc/sys/kernel/ostype", "Linux\n");
    root_.write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    allow_cpus("0-7");
  }

  void allow_cpus(const std::string& list) const {
    root_.write("proc/self/status",
                "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t" + list + "\n");
  }
  void mount(const std::string& mountinfo, const std::string& cgroup) const {
    root_.write("proc/self/mountinfo", mountinfo);
    root_.write("proc/self/cgroup", cgroup);
  }
  [[nodiscard]] Machine detect() const { return detect_machine_below(root_.path().string()); }

  TemporaryFolder root_;
};

TEST_F(MachineTest, ReadsWhatTheKernelSays) {
  const Machine machine = detect();
  EXPECT_EQ(machine.cpu_model, "Some CPU @ 2.0GHz: fast");
  EXPECT_EQ(machine.cpus_allowed, 8);
  EXPECT_EQ(machine.physical_cores, 4);
  EXPECT_EQ(machine.memory_allowed_bytes, 16 * kGib);
  EXPECT_THAT(machine.cpu_features, ElementsAre("avx2", "avx512_bf16", "avx512f", "f16c"));
  EXPECT_TRUE(machine.has_cpu_feature("avx512_bf16"));
  EXPECT_FALSE(machine.has_cpu_feature("amx_bf16"));
  EXPECT_FALSE(machine.has_cpu_feature("sse2"));
  EXPECT_EQ(machine.kernel, "Linux 6.1.0-18-amd64");
  EXPECT_THAT(machine.gpus, IsEmpty());
}

TEST_F(MachineTest, TheAffinityMaskLimits) {
  allow_cpus("0-1,4");
  EXPECT_EQ(detect().cpus_allowed, 3);
  EXPECT_EQ(detect().physical_cores, 2);
  allow_cpus("5");
  EXPECT_EQ(detect().cpus_allowed, 1);
}

TEST_F(MachineTest, NonsenseLeavesOneCpu) {
  for (const char* list : {"", "x", "-3", "99999999999", "0-999999999", ",,"}) {
    allow_cpus(list);
    EXPECT_EQ(detect().cpus_allowed, 1) << list;
    EXPECT_EQ(detect().physical_cores, 1) << list;
  }
}

TEST_F(MachineTest, CoresCountOneByOneWithoutTopology) {
  std::filesystem::remove_all(root_ / "sys/devices");
  EXPECT_EQ(detect().physical_cores, 8);
}

TEST_F(MachineTest, UnifiedGroupsLimit) {
  mount(kUnified, "0::/user.slice/job\n");
  root_.write("sys/fs/cgroup/user.slice/job/cpu.max", "250000 100000\n");
  root_.write("sys/fs/cgroup/user.slice/job/memory.max", std::to_string(2 * kGib) + "\n");
  EXPECT_EQ(detect().cpus_allowed, 3);  // 2.5, rounded up
  EXPECT_EQ(detect().physical_cores, 3);
  EXPECT_EQ(detect().memory_allowed_bytes, 2 * kGib);
}

TEST_F(MachineTest, TheStrictestGroupAboveLimits) {
  mount(kUnified, "0::/user.slice/job\n");
  root_.write("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  root_.write("sys/fs/cgroup/user.slice/cpu.max", "100000 100000\n");
  root_.write("sys/fs/cgroup/user.slice/job/memory.max", std::to_string(4 * kGib));
  root_.write("sys/fs/cgroup/user.slice/memory.max", std::to_string(3 * kGib));
  root_.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(detect().cpus_allowed, 1);
  EXPECT_EQ(detect().memory_allowed_bytes, 3 * kGib);
  root_.write("sys/fs/cgroup/user.slice/job/cpu.max", "200000 100000\n");
  root_.write("sys/fs/cgroup/user.slice/cpu.max", "400000 100000\n");
  EXPECT_EQ(detect().cpus_allowed, 2);
}

TEST_F(MachineTest, GroupsOfVersionOneLimit) {
  mount(kVersionOne, "4:memory:/job\n3:cpu,cpuacct:/job\n2:cpuset:/\n1:name=systemd:/x\n0::/\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root_.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", std::to_string(kGib));
  root_.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(detect().cpus_allowed, 2);
  EXPECT_EQ(detect().memory_allowed_bytes, kGib);
}

TEST_F(MachineTest, NoLimitIsNoLimit) {
  mount(kUnified, "0::/\n");
  root_.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  root_.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(detect().cpus_allowed, 8);
  EXPECT_EQ(detect().memory_allowed_bytes, 16 * kGib);
}

TEST_F(MachineTest, AQuotaBelowOneCpuLeavesOne) {
  mount(kUnified, "0::/\n");
  root_.write("sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_EQ(detect().cpus_allowed, 1);
}

// In a container without a name space of its own, the mount shows the container's group as its root.
TEST_F(MachineTest, AMountThatShowsAPartIsFollowed) {
  mount("30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/abc/job\n");
  root_.write("sys/fs/cgroup/job/cpu.max", "200000 100000\n");
  root_.write("sys/fs/cgroup/memory.max", std::to_string(kGib));
  EXPECT_EQ(detect().cpus_allowed, 2);
  EXPECT_EQ(detect().memory_allowed_bytes, kGib);
  // Our group lies elsewhere, although its name begins alike: only the mount's own limit can be seen.
  mount("30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/abcdef\n");
  root_.write("sys/fs/cgroupdef/cpu.max", "100000 100000");
  EXPECT_EQ(detect().cpus_allowed, 8);
  EXPECT_EQ(detect().memory_allowed_bytes, kGib);
}

TEST_F(MachineTest, AMountPointWithABlankIsFollowed) {
  mount("30 23 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n", "0::/\n");
  root_.write("sys/fs/c group/memory.max", std::to_string(kGib));
  EXPECT_EQ(detect().memory_allowed_bytes, kGib);
}

TEST_F(MachineTest, BrokenFilesAreNoLimits) {
  mount("\n- - -\n30 23 0:26 / /sys/fs/cgroup\n30 23 0:26 / /x rw - cgroup2\n" +
            std::string(kUnified),
        "nonsense\n0:\n0::\n0::/job\n");
  root_.write("sys/fs/cgroup/job/cpu.max", "100000\n");
  root_.write("sys/fs/cgroup/job/memory.max", "-5\n");
  root_.write("sys/fs/cgroup/cpu.max", "100000 0\n");
  root_.write("sys/fs/cgroup/memory.max", "99999999999999999999999\n");
  const CgroupLimits limits = read_cgroup_limits(root_.path().string());
  EXPECT_EQ(limits.cpus, std::nullopt);
  EXPECT_EQ(limits.memory_bytes, std::nullopt);
}

TEST_F(MachineTest, AnEmptyRootIsSurvived) {
  const TemporaryFolder nothing;
  const Machine machine = detect_machine_below(nothing.path().string());
  EXPECT_EQ(machine.cpu_model, "unknown CPU");
  EXPECT_EQ(machine.cpus_allowed, 1);
  EXPECT_EQ(machine.physical_cores, 1);
  EXPECT_EQ(machine.memory_allowed_bytes, 0);
}

TEST_F(MachineTest, TheKeyFollowsWhatMatters) {
  const Machine machine = detect();
  const std::string key = machine.key("2.11.0");
  EXPECT_EQ(key.size(), 16U);
  EXPECT_EQ(detect().key("2.11.0"), key);
  EXPECT_NE(machine.key("2.12.0"), key);

  Machine other = machine;
  other.kernel = "Linux 7";
  other.gpu_reason = "another sentence";
  other.memory_allowed_bytes -= kGib / 100;  // a newer kernel keeps a little more for itself
  EXPECT_EQ(other.key("2.11.0"), key);

  other = machine;
  other.cpus_allowed = 4;
  EXPECT_NE(other.key("2.11.0"), key);
  other = machine;
  other.memory_allowed_bytes = 8 * kGib;
  EXPECT_NE(other.key("2.11.0"), key);
  other = machine;
  other.cpu_model = "Another CPU";
  EXPECT_NE(other.key("2.11.0"), key);

  Machine with_gpu = machine;
  with_gpu.gpus.push_back({.uuid = "GPU-1", .name = "H100"});
  with_gpu.gpu_driver = "580.65.06";
  const std::string gpu_key = with_gpu.key("2.11.0");
  EXPECT_NE(gpu_key, key);
  with_gpu.gpu_driver = "580.99";
  with_gpu.gpus[0].uuid = "GPU-2";
  EXPECT_EQ(with_gpu.key("2.11.0"), gpu_key);
  with_gpu.gpu_driver = "590.1";
  EXPECT_NE(with_gpu.key("2.11.0"), gpu_key);
}

TEST_F(MachineTest, JsonCarriesTheFacts) {
  Machine machine = detect();
  machine.gpus.push_back({"GPU-1", "H100", 9, 0, 80 * kGib});
  const Json json = machine.to_json();
  EXPECT_EQ(json["cpus_allowed"], 8);
  EXPECT_EQ(json["cpu_features"][0], "avx2");
  EXPECT_EQ(json["gpus"][0]["compute_capability"], "9.0");
  EXPECT_EQ(json["gpus"][0]["memory_bytes"], 80 * kGib);
}

TEST(DetectMachine, DescribesThisOne) {
  const Machine machine = detect_machine();
  EXPECT_GE(machine.cpus_allowed, 1);
  EXPECT_GE(machine.cpus_allowed, machine.physical_cores);
  EXPECT_GT(machine.memory_allowed_bytes, 1 << 20);
  EXPECT_TRUE(machine.kernel.starts_with("Linux "));
  EXPECT_EQ(machine.gpus.empty() && machine.gpu_reason.empty(), false);
}

}  // namespace
}  // namespace autotuned
