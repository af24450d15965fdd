// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/device_lock.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "daemon/common/installation_paths.hpp"
#include "daemon/session/command_device.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;
constexpr const char* kGpu = "GPU-1";
constexpr const char* kSharedFile = "autotuned-device-GPU-1.lock";

// Folders of locks for two users, and one that both may write.
class DeviceLockTest : public testing::Test {
 protected:
  DeviceLockTest() {
    for (const char* name : {"own", "other", "all"})
      std::filesystem::create_directory(folder_ / name);
    chmod((folder_ / "all").c_str(), 01777);
    chmod(folder_.path().c_str(), 0755);
  }

  [[nodiscard]] LockFolders folders(const char* own) const {
    return {.own = folder_ / own, .shared = folder_ / "all"};
  }
  // Without waiting.
  Result<DeviceLock> lock(const std::string& device, const char* own = "own") {
    return lock_device(device, "run 1", folders(own), [this](const std::string& holder) {
      holder_ = holder;
      return false;
    });
  }

  TemporaryFolder folder_;
  std::string holder_;
};

TEST_F(DeviceLockTest, OneRunOfAUserAtATime) {
  auto first = lock("cpu");
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->descriptors().size(), 1);
  EXPECT_EQ(first->problem, "");
  const auto second = lock("cpu");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(holder_, "held by run 1");
  EXPECT_TRUE(lock(kGpu)) << "another device";
  *first = DeviceLock();
  EXPECT_TRUE(lock("cpu"));
}

// Two runs with the same two GPUs in different order would each have one of them.
TEST_F(DeviceLockTest, SeveralAreLockedInOneOrder) {
  EXPECT_THAT(lock_order({"GPU-b", "GPU-a"}), testing::ElementsAre("GPU-a", "GPU-b"));
  EXPECT_THAT(lock_order({"GPU-b", "GPU-b"}), testing::ElementsAre("GPU-b"));
  DeviceLocks locks;
  for (const char* gpu : {"GPU-a", "GPU-b"}) {
    auto one = lock(gpu);
    ASSERT_TRUE(one) << one.error().message();
    locks.all.push_back(*std::move(one));
  }
  EXPECT_EQ(locks.descriptors().size(), 4);
  EXPECT_FALSE(lock("GPU-b"));
  locks = {};
  EXPECT_TRUE(lock("GPU-b"));
}

TEST_F(DeviceLockTest, WaitsUntilTheDeviceIsFree) {
  auto first = lock("cpu");
  int looks = 0;
  const auto second = lock_device("cpu", "run 2", folders("own"), [&](const std::string&) {
    if (++looks == 3) *first = DeviceLock();
    return true;
  });
  EXPECT_TRUE(second);
  EXPECT_EQ(looks, 3);
}

TEST_F(DeviceLockTest, ProcessorIsSharedWithOtherUsersAndAGpuIsNot) {
  const auto cpu = lock("cpu");
  EXPECT_TRUE(lock("cpu", "other"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "all"));

  auto gpu = lock(kGpu);
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->descriptors().size(), 2);
  EXPECT_EQ(gpu->problem, "");
  EXPECT_FALSE(lock(kGpu, "other"));
  EXPECT_EQ(holder_, "held by a run of another user");
  *gpu = DeviceLock();
  EXPECT_TRUE(lock(kGpu, "other"));
}

// The umask of a run lets nobody else read what it makes.
TEST_F(DeviceLockTest, OtherUsersCanOpenTheirLockAndReadNothingInIt) {
  const mode_t mask = umask(0077);
  const auto gpu = lock(kGpu);
  EXPECT_EQ(umask(mask), 0077) << "changed";
  struct stat found {};
  ASSERT_EQ(stat((folder_ / "all" / kSharedFile).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0644);
  EXPECT_EQ(found.st_size, 0);
  ASSERT_EQ(stat((folder_ / "own/device-GPU-1.lock").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600);
}

TEST_F(DeviceLockTest, HoldsBetweenRealUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_EQ(chown((folder_ / "other").c_str(), kNobody, kNobody), 0);
  // 0: has it, 1: must wait, 2: an error, 3: went without the lock that users share.
  const auto as_nobody = [&](bool stays) {
    const pid_t child = fork();
    if (child == 0) {
      if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(9);
      const auto found = lock(kGpu, "other");
      if (!found) _exit(found.error().kind == ErrorKind::cancelled ? 1 : 2);
      if (!found->problem.empty()) _exit(3);
      if (stays) {
        const auto again = lock(kGpu, "other");
        _exit(again ? 2 : 0);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  // Whoever makes the file.
  EXPECT_EQ(as_nobody(true), 0);
  {
    const auto ours = lock(kGpu);
    ASSERT_TRUE(ours);
    EXPECT_EQ(ours->problem, "");
    EXPECT_EQ(as_nobody(false), 1);
  }
  std::filesystem::remove(folder_ / "all" / kSharedFile);
  {
    const auto ours = lock(kGpu);
    ASSERT_TRUE(ours);
    EXPECT_EQ(as_nobody(false), 1);
  }
  EXPECT_EQ(as_nobody(false), 0);
}

TEST_F(DeviceLockTest, SpoiltLockOfAllUsersCostsOnlyItself) {
  const auto file = folder_ / "all" / kSharedFile;
  folder_.write("precious", "content");
  const std::vector<std::function<void()>> traps = {
      [&] { std::filesystem::create_symlink(folder_ / "precious", file); },
      [&] { std::filesystem::create_symlink(folder_ / "none", file); },
      [&] { std::filesystem::create_hard_link(folder_ / "precious", file); },
      [&] { std::filesystem::create_directory(file); },
      [&] { ASSERT_EQ(mkfifo(file.c_str(), 0666), 0); }};
  for (const auto& lay : traps) {
    lay();
    const auto gpu = lock(kGpu);
    ASSERT_TRUE(gpu) << gpu.error().message();
    EXPECT_THAT(gpu->problem, HasSubstr(kSharedFile));
    EXPECT_EQ(gpu->descriptors().size(), 1);
    EXPECT_FALSE(lock(kGpu)) << "our own lock holds";
    EXPECT_EQ(folder_.read("precious"), "content");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
    std::filesystem::remove(file);
  }
  // Where others could remove the file under us it is no lock.
  chmod((folder_ / "all").c_str(), 0777);
  const auto gpu = lock(kGpu);
  ASSERT_TRUE(gpu);
  EXPECT_THAT(gpu->problem, HasSubstr("not a folder of root"));
}

TEST_F(DeviceLockTest, PartOfAGpuHasALockOfItsOwn) {
  const auto part = lock("MIG-GPU-1/1/0");
  ASSERT_TRUE(part) << part.error().message();
  EXPECT_EQ(part->problem, "");
  EXPECT_TRUE(lock("MIG-GPU-1/1/1"));
  EXPECT_FALSE(lock("MIG-GPU-1/1/0"));
}

// systemd-tmpfiles takes this lock before it removes what is old.
TEST_F(DeviceLockTest, NobodyTidiesTheFolderUpMeanwhile) {
  const Descriptor own(open((folder_ / "own").c_str(), O_RDONLY | O_DIRECTORY));
  {
    const auto first = lock("cpu");
    const auto second = lock(kGpu);
    EXPECT_NE(flock(own.get(), LOCK_EX | LOCK_NB), 0);
  }
  EXPECT_EQ(flock(own.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_F(DeviceLockTest, FolderThatIsNotThereIsAnError) {
  const auto none = lock_device("cpu", "run 1", {.own = folder_ / "none"},
                                [](const std::string&) { return false; });
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("none"));
}

// Variables of the environment, put back at the end.
class LockFolderTest : public testing::Test {
 protected:
  LockFolderTest() {
    for (const char* name : {"XDG_RUNTIME_DIR", "AUTOTUNED_LOCKS"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? "" : value);
      unsetenv(name);
    }
  }
  ~LockFolderTest() override {
    for (const auto& [name, value] : before_) {
      if (value.empty()) {
        unsetenv(name.c_str());
      } else {
        setenv(name.c_str(), value.c_str(), 1);
      }
    }
  }

  TemporaryFolder folder_;

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST_F(LockFolderTest, IsTheSameHoweverOneLoggedIn) {
  const auto cron = lock_folder();
  ASSERT_TRUE(cron) << cron.error().message();
  setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
  EXPECT_EQ(*lock_folder(), *cron);
  EXPECT_EQ(*runtime_folder(), folder_ / "autotuned");
}

TEST_F(LockFolderTest, CanBeAnotherOne) {
  setenv("AUTOTUNED_LOCKS", (folder_ / "locks").c_str(), 1);
  EXPECT_EQ(*lock_folder(), folder_ / "locks");
  std::filesystem::permissions(folder_ / "locks", std::filesystem::perms::all);
  EXPECT_EQ(lock_folder().error().kind, ErrorKind::permission);
  setenv("AUTOTUNED_LOCKS", "locks", 1);
  ASSERT_FALSE(lock_folder());
  EXPECT_THAT(lock_folder().error().message(), HasSubstr("AUTOTUNED_LOCKS"));
}

TEST(LogsLock, KeepsOtherCommandsOutOfTheFolder) {
  const TemporaryFolder folder;
  const auto logs = folder / "out/log";
  recipes::Recipe recipe;
  recipe.name = "small";
  {
    const auto held = lock_logs_for("profile", recipe, logs);
    ASSERT_TRUE(held) << held.error().message();
    EXPECT_TRUE(held->is_open());
    const auto other = lock_logs_for("guard", recipe, logs);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().kind, ErrorKind::busy);
    EXPECT_THAT(other.error().message(),
                AllOf(HasSubstr(logs.string()), HasSubstr("autotuned profile, process "),
                      HasSubstr("recipe small"), HasSubstr("another output folder")));
  }
  EXPECT_TRUE(lock_logs_for("guard", recipe, logs)) << "it has ended";
}

}  // namespace
}  // namespace autotuned::daemon
