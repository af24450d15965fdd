// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/file.hpp"
#include "base/process/process.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

// As far as the kernel tells: where it does not list the locks, the test has less to see.
void until_somebody_waits_for(const std::filesystem::path& file) {
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  const std::string inode = ":" + std::to_string(status.st_ino) + " ";
  while (true) {
    std::ifstream locks("/proc/locks");
    bool is_listed = false;
    for (std::string line; std::getline(locks, line);) {
      if (line.find(inode) == std::string::npos) continue;
      is_listed = true;
      if (line.find("->") != std::string::npos) return;
    }
    if (!is_listed) return;
    std::this_thread::yield();
  }
}

TEST(LockFile, OneHolderAtATime) {
  const TemporaryFolder folder;
  const auto file = folder / "device.lock";
  Result<Descriptor> first = lock_file(file, "run r-1 (process 7)", false);
  ASSERT_TRUE(first.has_value());
  const Result<Descriptor> second = lock_file(file, "run r-2", false);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().kind, ErrorKind::busy);
  EXPECT_EQ(second.error().what, "held by run r-1 (process 7)");
  EXPECT_EQ(second.error().where, file.string());
  first->reset();
  EXPECT_TRUE(lock_file(file, "run r-3", false).has_value());
  EXPECT_EQ(folder.read("device.lock"), "run r-3");
}

TEST(LockFile, AShorterHolderReplacesALongerOne) {
  const TemporaryFolder folder;
  { const auto lock = lock_file(folder / "l", "a rather long name", false); }
  { const auto lock = lock_file(folder / "l", "short", false); }
  EXPECT_EQ(folder.read("l"), "short");
}

TEST(LockFile, TheHoldersTextIsBoundedAndPrintable) {
  const TemporaryFolder folder;
  const auto lock = lock_file(folder / "l", "a\x1b[31m\n" + std::string(10'000, 'x'), false);
  const auto refused = lock_file(folder / "l", "b", false);
  ASSERT_FALSE(refused.has_value());
  EXPECT_LT(refused.error().what.size(), 300U);
  EXPECT_EQ(refused.error().what.substr(0, 17), "held by a?[31m?xx");
}

TEST(LockFile, NobodyNamedIsSaidSo) {
  const TemporaryFolder folder;
  const auto lock = lock_file(folder / "l", "", false);
  EXPECT_EQ(lock_file(folder / "l", "b", false).error().what, "another process holds the lock");
}

TEST(LockFile, AChildThatInheritedItKeepsIt) {
  const TemporaryFolder folder;
  Result<Descriptor> lock = lock_file(folder / "l", "us", false);
  ASSERT_TRUE(lock.has_value());
  ProcessSpec spec;
  spec.program = AUTOTUNED_TEST_CHILD;
  spec.arguments = {"wait"};
  // The child writes its byte into the lock's own file: nobody needs it.
  spec.descriptors = {{lock->get(), 3}};
  Result<Process> child = Process::start(spec);
  ASSERT_TRUE(child.has_value());
  lock->reset();
  EXPECT_EQ(lock_file(folder / "l", "other", false).error().kind, ErrorKind::busy);
  child->terminate(std::chrono::nanoseconds::zero());
  EXPECT_TRUE(lock_file(folder / "l", "other", false).has_value());
}

TEST(LockFile, WaitingEndsWithTheRelease) {
  const TemporaryFolder folder;
  Result<Descriptor> first = lock_file(folder / "l", "first", false);
  ASSERT_TRUE(first.has_value());
  std::jthread waiter([&] { EXPECT_TRUE(lock_file(folder / "l", "second", true).has_value()); });
  first->reset();
  waiter.join();
  EXPECT_EQ(folder.read("l"), "second");
}

// Else two processes could each hold the lock of a file of this name.
TEST(LockFile, AFileReplacedWhileWaitingIsNotTheLock) {
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) {
    Result<Descriptor> first = lock_file(folder / "l", "first", false);
    ASSERT_TRUE(first.has_value());
    Result<Descriptor> second = fail(ErrorKind::internal, "not tried");
    std::jthread waiter([&] { second = lock_file(folder / "l", "second", true); });
    until_somebody_waits_for(folder / "l");
    std::filesystem::remove(folder / "l");
    first->reset();
    waiter.join();
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(lock_file(folder / "l", "third", false).error().kind, ErrorKind::busy);
  }
}

TEST(LockFile, DoesNotFollowLinksOrWaitForPipes) {
  const TemporaryFolder folder;
  folder.write("precious", "content");
  std::filesystem::create_symlink(folder / "precious", folder / "link");
  EXPECT_FALSE(lock_file(folder / "link", "x", false).has_value());
  EXPECT_EQ(folder.read("precious"), "content");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(lock_file(folder / "pipe", "x", false).error().kind, ErrorKind::invalid);
  EXPECT_EQ(lock_file(folder / "no" / "l", "x", false).error().kind, ErrorKind::not_found);
}

// Who may write the folder could let the lock be a file of ours, which taking it would empty.
TEST(LockFile, DoesNotEmptyAFileThatHasAnotherName) {
  const TemporaryFolder folder;
  folder.write("precious", "content");
  std::filesystem::create_hard_link(folder / "precious", folder / "l");
  const auto lock = lock_file(folder / "l", "x", false);
  ASSERT_FALSE(lock.has_value());
  EXPECT_EQ(lock.error().kind, ErrorKind::invalid);
  EXPECT_EQ(folder.read("precious"), "content");
}

TEST(LockFile, IsNotInheritedByAccident) {
  const TemporaryFolder folder;
  Result<Descriptor> lock = lock_file(folder / "l", "us", false);
  EXPECT_EQ(::fcntl(lock->get(), F_GETFD), FD_CLOEXEC);
  ProcessSpec spec;
  spec.program = AUTOTUNED_TEST_CHILD;
  spec.arguments = {"exit", "0"};
  Result<Process> child = Process::start(spec);
  ASSERT_TRUE(child.has_value());
  lock->reset();
  EXPECT_TRUE(lock_file(folder / "l", "other", false).has_value());
}

}  // namespace
}  // namespace autotuned
