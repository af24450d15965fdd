// SPDX-License-Identifier: Apache-2.0
// Which indices stay in their folder.
#include "trainer/input/jpeg_index/jpeg_index_folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <set>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace autotuned::input {
namespace {

using std::chrono::hours;
using testing::UnorderedElementsAre;

class IndexFolder : public testing::Test {
 protected:
  // Whose content was changed, and which was read, so many hours ago.
  std::string put(const std::string& name, std::size_t bytes, int changed_hours, int used_hours) {
    const auto file = folder_.write(name, std::string(bytes, 'x'));
    const std::array<timespec, 2> times = {before(used_hours), before(changed_hours)};
    EXPECT_EQ(::utimensat(AT_FDCWD, file.c_str(), times.data(), 0), 0);
    return name;
  }
  void prune(const std::string& spared, std::int64_t free_bytes = 1 << 30) const {
    prune_indices(folder_.path(), folder_ / spared, {.now = now_, .free_bytes = free_bytes});
  }
  [[nodiscard]] std::set<std::string> left() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.insert(entry.path().filename().string());
    return names;
  }
  static std::string name_of(char digit) { return std::string(64, digit); }

  TemporaryFolder folder_;
  std::chrono::system_clock::time_point now_{hours(24 * 20'000)};

 private:
  [[nodiscard]] timespec before(int count) const {
    const auto time = now_ - hours(count);
    return {std::chrono::system_clock::to_time_t(time), 0};
  }
};

TEST_F(IndexFolder, LosesWhatNobodyUsedForLong) {
  constexpr int kMonth = 30 * 24;
  const auto used = put(name_of('a'), 10, 3 * kMonth, 1);
  put(name_of('b'), 10, 3 * kMonth, kMonth + 1);
  const auto written = put(name_of('c'), 10, kMonth - 1, 3 * kMonth);
  const auto spared = put(name_of('d'), 10, 3 * kMonth, 3 * kMonth);
  put(std::string(kUnpublishedIndex) + "Ab12Cd", 10, 25, 1);  // its writer was killed
  const auto begun = put(std::string(kUnpublishedIndex) + "Ef34Gh", 10, 1, 1);
  // Not ours.
  const auto other = put("notes.txt", 10, 3 * kMonth, 3 * kMonth);
  const auto upper = put(name_of('A'), 10, 3 * kMonth, 3 * kMonth);
  std::filesystem::create_directory(folder_ / name_of('e'));
  std::filesystem::create_symlink(folder_ / other, folder_ / name_of('f'));
  prune(spared);
  EXPECT_THAT(left(), UnorderedElementsAre(used, written, spared, begun, other, upper, name_of('e'),
                                           name_of('f')));
}

// Half of what would be free without any.
TEST_F(IndexFolder, TakesNoMoreThanHalfOfTheDisk) {
  put(name_of('1'), 1000, 9, 9);
  put(name_of('2'), 1000, 50, 8);
  const auto third = put(name_of('3'), 1000, 7, 7);
  const auto spared = put(name_of('4'), 1000, 60, 60);
  prune(spared, 4000);
  EXPECT_EQ(left().size(), 4U);
  prune(spared, 1000);  // 2,500 bytes are allowed
  EXPECT_THAT(left(), UnorderedElementsAre(third, spared));
  prune(spared, 0);
  EXPECT_THAT(left(), UnorderedElementsAre(spared));
  prune(spared, 0);
  EXPECT_THAT(left(), UnorderedElementsAre(spared));
}

TEST_F(IndexFolder, KnowsWhenOneWasUsed) {
  const auto name = put(name_of('a'), 10, 24 * 365, 24 * 365);
  const auto changed = std::filesystem::last_write_time(folder_ / name);
  mark_used(folder_ / name);
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / name), changed);
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / name).c_str(), &status), 0);
  EXPECT_GT(status.st_atim.tv_sec, status.st_mtim.tv_sec);
  mark_used(folder_ / "none");
  prune_indices(folder_ / "none", folder_ / "none/a", {.now = now_});
}

}  // namespace
}  // namespace autotuned::input
