// SPDX-License-Identifier: Apache-2.0
#include "base/user_folders.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A variable of the environment while this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(StateFolder, FollowsTheVariablesOfXdg) {
  const Variable home("HOME", "/users/one");
  const Variable state("XDG_STATE_HOME", "/somewhere/else");
  EXPECT_EQ(state_folder(), "/somewhere/else/autotuned");
  const Variable relative("XDG_STATE_HOME", "else");
  EXPECT_EQ(state_folder(), "/users/one/.local/state/autotuned");
  const Variable unset("XDG_STATE_HOME", nullptr);
  EXPECT_EQ(state_folder(), "/users/one/.local/state/autotuned");
}

TEST(StateFolder, IsFoundWithoutAHome) {
  const Variable home("HOME", nullptr);
  const Variable state("XDG_STATE_HOME", nullptr);
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
