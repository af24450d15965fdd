// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/split_dataset.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/trainer/input/fixtures.hpp"

namespace autotuned::input {
namespace {

std::unique_ptr<Dataset> opened(const std::string& type, const Json& parameters) {
  auto data = open_dataset(type, parameters);
  EXPECT_TRUE(data) << (data ? "" : data.error().message());
  return data ? std::move(*data) : nullptr;
}

std::unique_ptr<Dataset> synthetic(int samples) {
  return opened("synthetic", {{"samples", samples}, {"shape", {1, 4, 4}}, {"classes", 4}});
}

SplitData split(std::unique_ptr<Dataset> data, double share, std::uint64_t seed = 1) {
  auto split = split_dataset(std::move(data), share, seed);
  EXPECT_TRUE(split) << (split ? "" : split.error().message());
  return split ? std::move(*split) : SplitData{};
}

std::vector<std::string> names(const Dataset& data) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < data.size(); ++i)
    names.push_back(data.name(i));
  return names;
}

TEST(SplitDataset, GivesEverySampleToOneOfTheTwo) {
  struct Case {
    int samples;
    double share;
    int expected;
  };
  const std::vector<Case> cases = {{200, 0.1, 20}, {7, 0.5, 4}, {2, 0.01, 1}, {3, 0.99, 2}};
  for (const auto& [samples, share, expected] : cases) {
    const SplitData parts = split(synthetic(samples), share);
    EXPECT_EQ(parts.test->size(), expected);
    EXPECT_EQ(parts.train->size(), samples - expected);
    std::multiset<std::string> all;
    for (const Dataset* part : {parts.train.get(), parts.test.get()}) {
      for (const std::string& name : names(*part))
        all.insert(name);
    }
    EXPECT_EQ(all.size(), static_cast<std::size_t>(samples));
    const auto whole = names(*synthetic(samples));
    EXPECT_EQ(all, std::multiset<std::string>(whole.begin(), whole.end()));
  }
}

TEST(SplitDataset, IsOfTheSeed) {
  const auto of_seed = [](std::uint64_t seed) {
    return names(*split(synthetic(100), 0.2, seed).test);
  };
  EXPECT_EQ(of_seed(1), of_seed(1));
  EXPECT_NE(of_seed(1), of_seed(2));
}

TEST(SplitDataset, KeepsSamplesAndLabels) {
  const auto whole = synthetic(50);
  const SplitData parts = split(synthetic(50), 0.3);
  for (const Dataset* part : {parts.train.get(), parts.test.get()}) {
    for (std::int64_t i = 0; i < part->size(); ++i) {
      std::int64_t original = 0;
      while (whole->name(original) != part->name(i))
        ++original;
      EXPECT_EQ(part->label(i), whole->label(original));
      std::vector<std::uint8_t> expected(16);
      std::vector<std::uint8_t> found(16);
      ASSERT_TRUE(whole->read(original, expected));
      ASSERT_TRUE(part->read(i, found));
      EXPECT_EQ(found, expected);
      EXPECT_EQ(part->stored_index(i), i);
    }
    EXPECT_EQ(part->stored().items, part->size());
    EXPECT_EQ(part->stored().bytes, part->size() * 16);
  }
}

// Files that are gone through again and again are tested on once, and none of them is trained on.
TEST(SplitDataset, NeverTrainsOnAFileThatItTestsOn) {
  const auto pictures = [](int samples) {
    return opened("jpeg_files", {{"files", fixture_path("4*_*.jpg").string()},  // six
                                 {"repeat_to", samples},
                                 {"labels", "random"},
                                 {"classes", 4}});
  };
  for (const int samples : {6, 20, 600}) {
    const auto whole = pictures(samples);
    const SplitData parts = split(pictures(samples), 0.3);
    EXPECT_EQ(parts.test->size(), 2);
    const auto tested = names(*parts.test);
    const auto expected = std::ranges::count_if(names(*whole), [&](const std::string& name) {
      return std::ranges::find(tested, name) == tested.end();
    });
    EXPECT_EQ(parts.train->size(), expected);
    const auto trained = names(*parts.train);
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < parts.train->size(); ++i) {
      const std::string& name = trained[static_cast<std::size_t>(i)];
      EXPECT_THAT(tested, testing::Not(testing::Contains(name)));
      EXPECT_EQ(parts.train->stored_index(i), i % 4);
      EXPECT_EQ(name, trained[static_cast<std::size_t>(i % 4)]);
    }
    ASSERT_TRUE(parts.train->read_encoded(1, bytes));
    EXPECT_EQ(bytes, bytes_of_file(trained[1]));
    EXPECT_EQ(parts.train->stored().items, 4);
  }
}

// A table of pictures, each with so many lines.
class SplitTable : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Dataset> table_of(const std::vector<int>& lines) const {
    std::string table;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string name = std::to_string(i) + ".jpg";
      std::filesystem::copy_file(fixture_path("420_16x32.jpg"), folder_ / name,
                                 std::filesystem::copy_options::overwrite_existing);
      // Some for another class.
      for (int line = 0; line < lines[i]; ++line)
        table += name + "," + std::to_string(line % 2) + "\n";
    }
    return opened("image_index", {{"index", folder_.write("index.csv", table).string()}});
  }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(SplitTable, HasAllLinesOfAPictureOnOneSide) {
  const std::vector<int> lines = {2, 1, 2, 1, 3, 1, 1, 2, 1, 2};  // 16
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SplitData parts = split(table_of(lines), 0.4, seed);
    const auto tested = names(*parts.test);
    const auto trained = names(*parts.train);
    EXPECT_EQ(tested.size() + trained.size(), 16U);
    EXPECT_LE(tested.size(), 6U);
    EXPECT_GE(tested.size(), 5U);
    for (const std::string& name : tested)
      EXPECT_THAT(trained, testing::Not(testing::Contains(name)));
    EXPECT_EQ(names(*split(table_of(lines), 0.4, seed).test), tested);
    EXPECT_EQ(parts.doubt, "5 files are named more than once, such as " + path("0.jpg") +
                               " (2 times); all samples of a file are on one side of the split");
  }
  EXPECT_EQ(split(table_of({1, 1, 1}), 0.4).doubt, "");
}

TEST_F(SplitTable, TestsOnOnePictureAtLeast) {
  const SplitData parts = split(table_of({5, 4}), 0.1);
  EXPECT_THAT(names(*parts.test), testing::Each(path("1.jpg")));
  EXPECT_EQ(parts.test->size(), 4);
  EXPECT_EQ(parts.train->size(), 5);
  const auto one = split_dataset(table_of({3}), 0.5, 1);
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message(),
              testing::HasSubstr("all 3 samples are of the file " + path("0.jpg")));
}

TEST(SplitDataset, SkipsDamageInEachPartByItself) {
  const auto data = [] {
    return opened(
        "jpeg_files",
        {{"files", fixture_path("4*_*.jpg").string()}, {"labels", "random"}, {"on_error", "skip"}});
  };
  const SplitData parts = split(data(), 0.5);
  ASSERT_NE(parts.train->damage(), nullptr);
  EXPECT_TRUE(parts.train->damage()->note(0, {ErrorKind::corrupt, "is cut", "a", {}}));
  EXPECT_EQ(parts.train->damage()->count(), 1);
  EXPECT_EQ(parts.test->damage()->count(), 0);
}

TEST(SplitDataset, NeedsTwoSamples) {
  const auto parts = split_dataset(synthetic(1), 0.5, 1);
  ASSERT_FALSE(parts);
  EXPECT_THAT(parts.error().message(), testing::HasSubstr("there is one sample"));
}

}  // namespace
}  // namespace autotuned::input
