// SPDX-License-Identifier: Apache-2.0
#include "base/user_folders.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/base/environment_variable.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(HomeFolder, IsThatOfTheVariableOrOfTheSystem) {
  const EnvironmentVariable home("HOME", "/users/one");
  EXPECT_EQ(home_folder(), "/users/one");
  const EnvironmentVariable unset("HOME", nullptr);
  EXPECT_FALSE(home_folder().empty());
  EXPECT_NE(home_folder(), "/users/one");
}

TEST(StateFolder, FollowsTheVariablesOfXdg) {
  const EnvironmentVariable home("HOME", "/users/one");
  const EnvironmentVariable state("XDG_STATE_HOME", "/somewhere/else");
  EXPECT_EQ(state_folder(), "/somewhere/else/autotuned");
  const EnvironmentVariable relative("XDG_STATE_HOME", "else");
  EXPECT_EQ(state_folder(), "/users/one/.local/state/autotuned");
  const EnvironmentVariable unset("XDG_STATE_HOME", nullptr);
  EXPECT_EQ(state_folder(), "/users/one/.local/state/autotuned");
}

TEST(StateFolder, IsFoundWithoutAHome) {
  const EnvironmentVariable home("HOME", nullptr);
  const EnvironmentVariable state("XDG_STATE_HOME", nullptr);
  EXPECT_THAT(state_folder().string(), HasSubstr("/.local/state/autotuned"));
}

TEST(MakeFolders, MakesWhatIsMissingForThisUserAlone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folders(folder / "one/two"));
  EXPECT_EQ(fs::status(folder / "one").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(folder / "one/two").permissions(), fs::perms::owner_all);
  EXPECT_TRUE(make_folders(folder / "one/two"));
  folder.write("file", "");
  const auto below_a_file = make_folders(folder / "file/one");
  ASSERT_FALSE(below_a_file);
  EXPECT_THAT(below_a_file.error().message(), HasSubstr("cannot make the folder"));
}

TEST(MakePrivateFolder, MakesItForThisUserAlone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_private_folder(folder / "own", "the folder", "nothing"));
  EXPECT_EQ(fs::status(folder / "own").permissions(), fs::perms::owner_all);
  EXPECT_TRUE(make_private_folder(folder / "own", "the folder", "nothing"));
}

TEST(MakePrivateFolder, RefusesWhatOthersCouldChange) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "open");
  ::chmod((folder / "open").c_str(), 0770);
  fs::create_directory(folder / "own");
  ::chmod((folder / "own").c_str(), 0700);
  fs::create_directory_symlink(folder / "own", folder / "link");
  folder.write("file", "");
  for (const char* name : {"open", "link", "file"}) {
    const auto made = make_private_folder(folder / name, "the folder for locks", "remove it");
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().kind, ErrorKind::permission) << name;
    EXPECT_THAT(made.error().message(), HasSubstr("the folder for locks is not a folder"));
    EXPECT_THAT(made.error().message(), HasSubstr("remove it"));
  }
  const auto missing = make_private_folder(folder / "no" / "own", "the folder for locks", "");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), HasSubstr("cannot make the folder for locks"));
}

}  // namespace
}  // namespace autotuned
