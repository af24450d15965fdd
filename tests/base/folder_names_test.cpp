// SPDX-License-Identifier: Apache-2.0
#include "base/folder_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> all_of(FolderNames& names) {
  std::vector<std::string> all;
  while (const auto name = names.next())
    all.emplace_back(*name);
  return all;
}

TEST(FolderNames, AreThoseOfFilesAndFoldersThere) {
  const TemporaryFolder folder;
  folder.write(".hidden", "");
  folder.write("file with spaces", "");
  std::filesystem::create_directories(folder.path() / "folder" / "below");
  FolderNames names(folder.path().c_str());
  EXPECT_THAT(all_of(names), UnorderedElementsAre(".hidden", "file with spaces", "folder"));
  EXPECT_FALSE(names.failure());
  EXPECT_FALSE(names.next());  // its end stays its end
}

TEST(FolderNames, ThereAreNoneInAnEmptyFolder) {
  const TemporaryFolder folder;
  FolderNames names(folder.path().c_str());
  EXPECT_THAT(all_of(names), IsEmpty());
  EXPECT_FALSE(names.failure());
}

TEST(FolderNames, TellWhyThereAreNone) {
  const TemporaryFolder folder;
  FolderNames missing((folder.path() / "missing").c_str());
  EXPECT_FALSE(missing.next());
  EXPECT_EQ(missing.failure(), std::errc::no_such_file_or_directory);
  folder.write("file", "");
  FolderNames file((folder.path() / "file").c_str());
  EXPECT_FALSE(file.next());
  EXPECT_EQ(file.failure(), std::errc::not_a_directory);
}

}  // namespace
}  // namespace autotuned
