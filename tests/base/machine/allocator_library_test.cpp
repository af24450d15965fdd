// SPDX-License-Identifier: Apache-2.0
#include "base/machine/allocator_library.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

// Folders of libraries in the hands of root, which a test can only make as root.
class AllocatorFolder : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make files of root";
    chmod(folder_.path().c_str(), 0755);
  }
  [[nodiscard]] std::filesystem::path add(const std::string& name, mode_t mode = 0644) const {
    const auto file = folder_.write(name, "a library");
    chmod(file.c_str(), mode);
    return std::filesystem::canonical(file);
  }
  [[nodiscard]] std::string refusal() const {
    const auto found = find_allocator_library("jemalloc", {folder_.path()});
    return found ? "found" : std::string(to_string(found.error().kind)) + ": " + found.error().what;
  }

  TemporaryFolder folder_;
};

TEST_F(AllocatorFolder, IsThatOfTheFirstFolderThatHasIt) {
  const TemporaryFolder without;
  const auto file = add("libjemalloc.so.2");
  const auto found = find_allocator_library("jemalloc", {without.path(), folder_.path()});
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(*found, file);
}

TEST_F(AllocatorFolder, IsTheFileBehindALink) {
  const auto file = add("libjemalloc.so.2.3");
  std::filesystem::create_symlink("libjemalloc.so.2.3", folder_ / "libjemalloc.so.2");
  EXPECT_EQ(*find_allocator_library("jemalloc", {folder_.path()}), file);
}

TEST_F(AllocatorFolder, NobodyButRootMayHaveWrittenIt) {
  const auto file = add("libjemalloc.so.2", 0664);
  EXPECT_EQ(refusal(), "permission: is writable by users other than root");
  chmod(file.c_str(), 0644);
  ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
  EXPECT_EQ(refusal(), "permission: is not owned by root");
  ASSERT_EQ(chown(file.c_str(), 0, 0), 0);
  chmod(folder_.path().c_str(), 0777);
  EXPECT_EQ(refusal(), "permission: is writable by users other than root");
  chmod(folder_.path().c_str(), 0755);
  EXPECT_EQ(refusal(), "found");
}

TEST_F(AllocatorFolder, MustBeAFile) {
  std::filesystem::create_directory(folder_ / "libjemalloc.so.2");
  EXPECT_EQ(refusal(), "permission: has the wrong type of file");
}

TEST(AllocatorLibraries, ThoseMissingNameTheirPackage) {
  const TemporaryFolder empty;
  const auto missing = find_allocator_library("tcmalloc", {empty.path(), "/no/such/folder"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(missing.error().message(),
              HasSubstr("libtcmalloc_minimal.so.4 from the package libtcmalloc-minimal4"));
  EXPECT_FALSE(find_allocator_library("mimalloc", {empty.path()}));
}

TEST(AllocatorLibraries, AreAllAnsweredFor) {
  const auto here = allocators_here();
  ASSERT_EQ(here.size(), kAllocatorLibraries.size());
  for (const auto& [name, reason] : here)
    EXPECT_EQ(reason.empty(), find_allocator_library(name).has_value()) << name;
}

}  // namespace
}  // namespace autotuned
