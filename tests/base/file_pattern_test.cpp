// SPDX-License-Identifier: Apache-2.0
#include "base/file_pattern.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

void touch(const std::filesystem::path& file) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << "x";
}

TEST(FilePattern, MatchesFilesSortedByTheirBytes) {
  const TemporaryFolder folder;
  for (const char* name : {"b.jpg", "a.jpg", "Z.jpg", "c.png", "d.jpg/inside.jpg", "e/f.jpg"})
    touch(folder / name);
  const std::string here = as_pattern((folder / "").string());
  EXPECT_THAT(*files_matching(here + "*.jpg"),
              ElementsAre(folder / "Z.jpg", folder / "a.jpg", folder / "b.jpg"));
  EXPECT_THAT(*files_matching(here + "*/*.jpg"),
              ElementsAre(folder / "d.jpg/inside.jpg", folder / "e/f.jpg"));
  EXPECT_THAT(*files_matching(here + "[ab].jpg"), ElementsAre(folder / "a.jpg", folder / "b.jpg"));
  EXPECT_THAT(*files_matching(here + "c.png"), ElementsAre(folder / "c.png"));
  EXPECT_THAT(*files_matching(here + "none"), IsEmpty());
  EXPECT_THAT(*files_matching(here + "none/*/x"), IsEmpty());
  EXPECT_THAT(*files_matching(here + "a.jpg/*"), IsEmpty());
  EXPECT_THAT(*files_matching(""), IsEmpty());
}

TEST(FilePattern, TakesAnyPathAsItself) {
  const TemporaryFolder folder;
  for (const char* name : {"a[1]*?\\.jpg", "a1.jpg"})
    touch(folder / name);
  const auto path = folder / "a[1]*?\\.jpg";
  EXPECT_THAT(*files_matching(as_pattern(path.string())), ElementsAre(path));
}

TEST(FilePattern, NamesTheFolderThatCannotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every folder";
  const TemporaryFolder folder;
  touch(folder / "shut/a.jpg");
  std::filesystem::permissions(folder / "shut", std::filesystem::perms::none);
  const auto files = files_matching(as_pattern((folder / "shut").string()) + "/*.jpg");
  std::filesystem::permissions(folder / "shut", std::filesystem::perms::owner_all);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::permission);
  EXPECT_THAT(files.error().where, testing::HasSubstr("shut"));
}

}  // namespace
}  // namespace autotuned
