// SPDX-License-Identifier: Apache-2.0
// A training whose disk is full for a while.
#include <gmock/gmock.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {
namespace {

// A file system in memory of 4 MiB.
class SmallDisk {
 public:
  explicit SmallDisk(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directory(folder_);
    is_mounted_ = mount("autotuned-test", folder_.c_str(), "tmpfs", 0, "size=4m,mode=755") == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  [[nodiscard]] bool is_mounted() const { return is_mounted_; }
  void fill() const { std::ofstream(folder_ / "filler") << std::string(8 << 20, 'x'); }
  void make_room() const { std::filesystem::remove(folder_ / "filler"); }

 private:
  std::filesystem::path folder_;
  bool is_mounted_ = false;
};

// The kernel's own ENOSPC: what fails is not the opening of the file but its writing.
TEST(FullDisk, CostsACheckpointAndLeavesTheLastOne) {
  for (const bool is_async : {false, true}) {
    SCOPED_TRACE(is_async);
    const Folder folder;
    const SmallDisk disk(folder / "disk");
    if (!disk.is_mounted()) GTEST_SKIP() << "mounting a file system is not permitted here";
    const recipes::Recipe recipe = small_recipe();
    const Configuration configuration = with(starting(recipe), "checkpoint.async", is_async);
    const ProgressSink ignored = [](const Json&) {};
    const auto whole = load(recipe, configuration);
    static_cast<void>(
        value_of(train(*whole, {.checkpoint_path = folder / "whole"}, ignored, never)));
    const auto job = load(recipe, configuration);
    const auto checkpoint = folder / "disk" / "c";
    const auto content = [&] { return value_of(read_file(checkpoint, 4 << 20)); };
    std::string last;
    int written = 0;
    std::vector<std::string> warnings;
    const ProgressSink sink = [&](const Json& frame) {
      if (frame.contains("checkpoint") && ++written == 1) {
        last = content();
        disk.fill();
      }
      if (!frame.contains("warning")) return;
      warnings.push_back(frame["warning"]);
      EXPECT_TRUE(content() == last) << "the one before is whole";
      if (warnings.size() == 2) disk.make_room();
    };
    const TrainingSummary summary = value_of(
        train(*job, {.checkpoint_path = checkpoint, .checkpoint_every_ns = 0}, sink, never));
    EXPECT_EQ(summary.steps, job->steps());
    EXPECT_GE(written, 2);
    EXPECT_THAT(warnings, testing::SizeIs(2));
    EXPECT_THAT(warnings, testing::Each(testing::HasSubstr("No space left on device")));
    EXPECT_EQ(value_of(job->digest()), value_of(whole->digest()));
    const auto again = load(recipe, configuration);
    const TrainingSummary resumed =
        value_of(train(*again, {.checkpoint_path = checkpoint, .resume = true}, ignored, never));
    EXPECT_EQ(resumed.resumed_from_step, summary.steps);
  }
}

}  // namespace
}  // namespace autotuned::trainer
