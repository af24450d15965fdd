// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/output_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/user_folders.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned::daemon {
namespace {

// Also as root, who may write everywhere.
TEST(PlaceOfOutput, TheRootAndTheFoldersOfTheSystemAreRefused) {
  for (const char* const folder : {"/", "//", "/etc", "/usr/", "/usr/../home", "/.."}) {
    const auto checked = check_output_folder(folder);
    ASSERT_FALSE(checked) << folder;
    EXPECT_EQ(checked.error().kind, ErrorKind::invalid) << folder;
    EXPECT_EQ(checked.error().what, "this folder is the system's, and no output folder") << folder;
    const auto opened = open_output_folder(folder, "the test");
    ASSERT_FALSE(opened) << folder;
    EXPECT_EQ(opened.error().what, checked.error().what) << folder;
  }
}

TEST(PlaceOfOutput, TheHomeIsRefusedAndAFolderInItIsNot) {
  const TemporaryFolder folder;
  const EnvironmentVariable home("HOME", folder.path().c_str());
  const auto checked = check_output_folder(folder.path());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().what, "this is the home of the user, and no output folder");
  std::filesystem::create_directory_symlink(folder.path(), folder / "link");
  EXPECT_FALSE(check_output_folder(folder / "link"));
  EXPECT_TRUE(open_output_folder(folder / "out", "the test"));
  EXPECT_TRUE(check_output_folder(folder / "out"));
}

// What another run, the history or the queue keeps there would be mixed with results.
TEST(PlaceOfOutput, TheLogsOfAnotherRunAndTheStateOfTheUserAreRefused) {
  const TemporaryFolder folder;
  const EnvironmentVariable state("XDG_STATE_HOME", (folder / "state").c_str());
  ASSERT_TRUE(open_output_folder(folder / "out", "the test"));
  std::filesystem::create_directories(folder / "state/autotuned");
  std::filesystem::create_directory_symlink(folder / "out/log", folder / "link");
  std::filesystem::create_directory_symlink(folder / "state", folder / "other");
  const std::filesystem::path here = std::filesystem::canonical(folder.path());
  for (const char* const name : {"out/log", "out/log/new/below", "link", "link/new"}) {
    const auto checked = check_output_folder(folder / name);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().kind, ErrorKind::invalid) << name;
    EXPECT_EQ(checked.error().where, (folder / name).string());
    EXPECT_EQ(checked.error().what, "another run keeps its logs in " + (here / "out/log").string() +
                                        ", which is no output folder");
    EXPECT_FALSE(open_output_folder(folder / name, "the test")) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out/log/new")) << "nothing was made";
  for (const char* const name : {"state/autotuned", "state/autotuned/out", "other/autotuned/out"}) {
    const auto checked = check_output_folder(folder / name);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().what, "the history and the queue are kept in " +
                                        (here / "state/autotuned").string() +
                                        ", which is no output folder");
  }
  // Neither a folder of that name without a run's lock, nor one beside the logs.
  for (const char* const name : {"log", "log/new", "out/again", "out/log-2", "state/other"})
    EXPECT_TRUE(check_output_folder(folder / name)) << name;
}

// As in a service, which may have no HOME.
TEST(PlaceOfOutput, TheHomeThatTheSystemKnowsIsRefusedToo) {
  const EnvironmentVariable unset("HOME", nullptr);
  const std::filesystem::path home = home_folder();
  if (!home.is_absolute() || !std::filesystem::is_directory(home)) {
    GTEST_SKIP() << "the system knows no home of this user";
  }
  EXPECT_FALSE(check_output_folder(home));
}

// With a user whom the system does not know, the current folder is not taken for the home.
TEST(PlaceOfOutput, TheCurrentFolderIsNoHome) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  const EnvironmentVariable home("HOME", ".");
  std::filesystem::current_path(folder.path());
  const auto checked = check_output_folder(folder.path());
  std::filesystem::current_path(before);
  EXPECT_TRUE(checked) << checked.error().message();
}

}  // namespace
}  // namespace autotuned::daemon
