// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <thread>
#include <vector>

#include "tests/base/full_disk.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

mode_t mode_of(const std::filesystem::path& file) {
  struct stat status {};
  EXPECT_EQ(::stat(file.c_str(), &status), 0);
  return status.st_mode & 0777U;
}

TEST(ReadFile, ReadsUpToTheLimit) {
  const TemporaryFolder folder;
  std::string content(200'000, 'x');
  content[100'000] = '\0';
  const auto file = folder.write("a", content);
  EXPECT_EQ(*read_file(file, content.size()), content);
  EXPECT_EQ(*read_file(folder.write("empty", ""), 0), "");
  const auto refused = read_file(file, content.size() - 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().what, HasSubstr("199999"));
  EXPECT_EQ(refused.error().where, file.string());
}

TEST(ReadFile, ReadsFilesOfTheKernelWhoseSizeIsZero) {
  EXPECT_THAT(*read_file("/proc/self/status", 1 << 20), HasSubstr("Pid:"));
}

TEST(ReadFile, RefusesWhatIsNotARegularFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_file(folder / "missing", 10).error().kind, ErrorKind::not_found);
  EXPECT_EQ(read_file(folder.path(), 10).error().kind, ErrorKind::invalid);
  EXPECT_EQ(read_file("/dev/zero", 10).error().kind, ErrorKind::invalid);
  // Must not wait for somebody to write into it.
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_file(folder / "pipe", 10).error().kind, ErrorKind::invalid);
}

TEST(WriteFileAtomically, WritesReplacesAndLeavesNothingElse) {
  const TemporaryFolder folder;
  const auto file = folder / "a";
  ASSERT_TRUE(write_file_atomically(file, "one").has_value());
  EXPECT_EQ(folder.read("a"), "one");
  const std::string large(1 << 20, 'y');
  ASSERT_TRUE(write_file_atomically(file, large).has_value());
  EXPECT_EQ(folder.read("a"), large);
  ASSERT_TRUE(write_file_atomically(file, "").has_value());
  EXPECT_EQ(folder.read("a"), "");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(WriteFileAtomically, ModeFollowsSharedUmaskAndTheFileThatWasThere) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0027);
  EXPECT_TRUE(write_file_atomically(folder / "shared", "x").has_value());
  EXPECT_TRUE(write_file_atomically(folder / "private", "x", false).has_value());
  ::umask(before);
  EXPECT_EQ(mode_of(folder / "shared"), 0640U);
  EXPECT_EQ(mode_of(folder / "private"), 0600U);
  EXPECT_TRUE(write_file_atomically(folder / "private", "y", true).has_value());
  EXPECT_EQ(mode_of(folder / "private"), 0600U);
}

TEST(WriteFileAtomically, ANameOfFullLengthAndOneWithoutFolderWork) {
  const TemporaryFolder folder;
  const std::string longest(255, 'n');
  EXPECT_TRUE(write_file_atomically(folder / longest, "x").has_value());
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto written = write_file_atomically("bare", "x");
  std::filesystem::current_path(before);
  EXPECT_TRUE(written.has_value());
  EXPECT_EQ(folder.read("bare"), "x");
}

TEST(WriteFileAtomically, AFullDiskKeepsTheOldContent) {
  const TemporaryFolder folder;
  const auto file = folder.write("a", "old");
  Result<void> written;
  {
    const FullDisk full(4096);
    written = write_file_atomically(file, std::string(1 << 20, 'x'));
  }
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().kind, ErrorKind::disk_full);
  EXPECT_EQ(written.error().where, file.string());
  EXPECT_EQ(folder.read("a"), "old");
  EXPECT_EQ(folder.entries(), 1);
}

// SIGXFSZ ends the writer in the middle, as SIGKILL may.
TEST(WriteFileAtomically, AWriterThatIsKilledLeavesNothingOfALargeFile) {
  const TemporaryFolder folder;
  if (!Descriptor(::open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600)).is_open()) {
    GTEST_SKIP() << "the file system has no files without names";
  }
  const std::string large(4 << 20, 'x');
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::signal(SIGXFSZ, SIG_DFL);
    const struct rlimit little { 1 << 20, 1 << 20 };
    ::setrlimit(RLIMIT_FSIZE, &little);
    static_cast<void>(write_file_atomically(folder / "a", large));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.entries(), 0);
}

TEST(RemoveUnfinishedFiles, LeavesWhatHasAnotherName) {
  const TemporaryFolder folder;
  folder.write(".autotuned-0123456789abcdef.tmp", "half");
  folder.write("model.pt", "whole");
  folder.write("kept/.autotuned-0123456789abcdef.tmp", "of another folder");
  std::filesystem::create_symlink(folder / "model.pt", folder / ".autotuned-link.tmp");
  remove_unfinished_files(folder.path());
  EXPECT_EQ(folder.entries(), 3);
  EXPECT_EQ(folder.read("model.pt"), "whole");
  remove_unfinished_files(folder / "none");
}

TEST(NameHolder, ReplacesWhatTheLockSaid) {
  const TemporaryFolder folder;
  const auto lock = lock_file(folder / "lock", "a run that has no name yet", false).value();
  name_holder(lock, "run r-1");
  EXPECT_EQ(folder.read("lock"), "run r-1");
}

TEST(WriteFileAtomically, FailuresNameTheReasonAndLeaveNothing) {
  const TemporaryFolder folder;
  EXPECT_EQ(write_file_atomically(folder / "no" / "a", "x").error().kind, ErrorKind::not_found);
  std::filesystem::create_directory(folder / "d");
  EXPECT_FALSE(write_file_atomically(folder / "d", "x").has_value());
  EXPECT_EQ(folder.entries(), 1);
}

TEST(WriteFileAtomically, AReaderSeesOldOrNewButNeverAPart) {
  const TemporaryFolder folder;
  const auto file = folder / "a";
  const std::string first(300'000, 'a');
  const std::string second(200'000, 'b');
  ASSERT_TRUE(write_file_atomically(file, first).has_value());
  std::jthread writer([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(write_file_atomically(file, i % 2 == 0 ? second : first).has_value());
    }
  });
  for (int i = 0; i < 200; ++i) {
    const auto content = read_file(file, 1 << 20);
    ASSERT_TRUE(content.has_value());
    EXPECT_TRUE(*content == first || *content == second);
  }
}

TEST(PublishFile, RenamesWhatAnotherWrote) {
  const TemporaryFolder folder;
  const auto temporary = folder.write("model.tmp", "weights");
  folder.write("model", "older");
  ASSERT_TRUE(publish_file(temporary, folder / "model").has_value());
  EXPECT_EQ(folder.read("model"), "weights");
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_EQ(publish_file(temporary, folder / "model").error().kind, ErrorKind::not_found);
}

TEST(LastLines, TakesTheEnd) {
  const TemporaryFolder folder;
  const auto file = folder.write("log", "one\ntwo\n\nthree\n");
  EXPECT_EQ(last_lines(file, 1), "three");
  EXPECT_EQ(last_lines(file, 3), "two\n\nthree");
  EXPECT_EQ(last_lines(file, 100), "one\ntwo\n\nthree");
  EXPECT_EQ(last_lines(file, 0), "");
  EXPECT_EQ(last_lines(folder.write("endless", "no newline"), 1), "no newline");
}

TEST(FirstBytes, AreThoseOfARegularFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("text", "one\ntwo");
  EXPECT_EQ(first_bytes(file, 5), "one\nt");
  EXPECT_EQ(first_bytes(file, 100), "one\ntwo");
  EXPECT_EQ(first_bytes(folder.write("empty", ""), 5), "");
  for (const std::filesystem::path& other :
       {folder / "missing", folder.path(), std::filesystem::path("/dev/zero")})
    EXPECT_EQ(first_bytes(other, 5), std::nullopt) << other;
}

TEST(LastLines, IsBoundedInBytes) {
  const TemporaryFolder folder;
  EXPECT_EQ(last_lines(folder.write("log", std::string(100'000, 'x')), 5, 10),
            std::string(10, 'x'));
  EXPECT_EQ(last_lines(folder.write("log2", "aaaa\nbbbb\ncccc"), 5, 7), "bb\ncccc");
}

TEST(LastLines, WhatCannotBeReadIsEmpty) {
  const TemporaryFolder folder;
  EXPECT_EQ(last_lines(folder / "missing", 5), "");
  EXPECT_EQ(last_lines(folder.path(), 5), "");
  EXPECT_EQ(last_lines("/dev/zero", 5), "");
  EXPECT_EQ(last_lines(folder.write("empty", ""), 5), "");
  EXPECT_EQ(last_lines(folder.write("newlines", "\n\n\n"), 5), "");
}

TEST(LastLinesProperty, AgreesWithSplittingTheWholeText) {
  const TemporaryFolder folder;
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (auto left = random() % 20; left > 0; --left)
      text += random() % 3 == 0 ? '\n' : 'x';
    const int wanted = static_cast<int>(random() % 6);
    std::string kept = text;
    while (kept.ends_with('\n'))
      kept.pop_back();
    std::vector<std::string> lines(1);
    for (const char character : kept) {
      if (character == '\n') {
        lines.emplace_back();
      } else {
        lines.back() += character;
      }
    }
    std::string expected;
    const std::size_t from =
        lines.size() - std::min(lines.size(), static_cast<std::size_t>(wanted));
    for (std::size_t line = from; line < lines.size(); ++line) {
      expected += (line == from ? "" : "\n") + lines[line];
    }
    EXPECT_EQ(last_lines(folder.write("log", text), wanted), expected) << text;
  }
}

TEST(OutputFile, NothingButARegularFileIsReplaced) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::filesystem::path& file, bool may_replace) {
    const auto checked = check_output_file(file, may_replace);
    return checked ? std::string() : checked.error().message();
  };
  EXPECT_EQ(refusal(folder / "new", false), "");
  folder.write("old", "precious");
  EXPECT_EQ(refusal(folder / "old", true), "");
  EXPECT_THAT(refusal(folder / "old", false), HasSubstr("give --overwrite"));

  std::filesystem::create_symlink("old", folder / "link");
  std::filesystem::create_symlink("missing", folder / "dangling");
  std::filesystem::create_symlink("/dev/full", folder / "device");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const bool may_replace : {false, true}) {
    for (const char* name : {"link", "dangling"})
      EXPECT_THAT(refusal(folder / name, may_replace), HasSubstr("symbolic link")) << name;
    for (const auto& file :
         {folder / "device", folder / "pipe", folder.path(), std::filesystem::path("/dev/null")})
      EXPECT_THAT(refusal(file, may_replace), HasSubstr("not a regular file")) << file;
  }
}

}  // namespace
}  // namespace autotuned
