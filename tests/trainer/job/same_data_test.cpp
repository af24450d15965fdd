// SPDX-License-Identifier: Apache-2.0
// A training goes on with its own data only, wherever these lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "tests/places.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/job/training.hpp"
#include "trainer/state/data_identity.hpp"

namespace autotuned::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kImages = 200;
constexpr int kSide = 8;

std::string big_endian(int value) {
  return {'\0', '\0', static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
}

std::string images_of(int value) {
  return std::string("\0\0\x08\x03", 4) + big_endian(kImages) + big_endian(kSide) +
         big_endian(kSide) + std::string(kImages * kSide * kSide, static_cast<char>(value));
}

// Four classes in turn, from `first` on.
std::string labels_from(int first) {
  std::string bytes = std::string("\0\0\x08\x01", 4) + big_endian(kImages);
  for (int i = 0; i < kImages; ++i)
    bytes += static_cast<char>((first + i) % 4);
  return bytes;
}

class SameData : public testing::Test {
 protected:
  // Writes both files into a folder of that name.
  [[nodiscard]] recipes::Recipe arrays(const std::string& folder, const std::string& images,
                                       const std::string& labels) const {
    std::filesystem::create_directories(folder_ / folder);
    EXPECT_TRUE(write_file_atomically(folder_ / (folder + "/images"), images));
    EXPECT_TRUE(write_file_atomically(folder_ / (folder + "/labels"), labels));
    recipes::Recipe recipe = small_recipe();
    recipe.data = {"idx",
                   {{"images", (folder_ / (folder + "/images")).string()},
                    {"labels", (folder_ / (folder + "/labels")).string()},
                    {"shuffle", true}}};
    return recipe;
  }

  // Two pictures in each of two folders, which are the classes.
  [[nodiscard]] recipes::Recipe pictures(const std::string& folder, const std::string& one,
                                         const std::string& two) const {
    const auto fixtures = tests::source_folder() / "tests/trainer/input/data";
    const std::vector<std::pair<std::string, std::string>> all = {
        {one, "420"}, {one, "422"}, {two, "444"}, {two, "grey"}};
    for (const auto& [name, kind] : all) {
      const std::filesystem::path into = folder_ / (folder + "/" + name);
      std::filesystem::create_directories(into);
      const std::string file = kind + "_37x51.jpg";
      std::filesystem::copy_file(fixtures / file, into / file);
    }
    recipes::Recipe recipe = small_recipe();
    recipe.evaluation.reset();
    recipe.model.parameters["classes"] = 2;
    recipe.data = {"jpeg_files",
                   {{"files", (folder_ / (folder + "/*/*.jpg")).string()},
                    {"repeat_to", 200},
                    {"labels", "folder_names"}}};
    recipe.input = {{"decode_jpeg", Json::object()},
                    {"random_crop", {{"size", 8}}},
                    {"to_float", Json::object()}};
    return recipe;
  }

  static Json identity_of(const recipes::Recipe& recipe) {
    return value_of(load(recipe)->data_identity());
  }

  // Resumes a training of `recipe` from the checkpoint, and returns what it says, or how many steps it had.
  [[nodiscard]] std::string resumed(const recipes::Recipe& recipe) const {
    return told(recipe, {.checkpoint_path = checkpoint(), .resume = true});
  }
  static std::string told(const recipes::Recipe& recipe, const TrainRequest& request) {
    const auto job = load(recipe);
    const auto done = train(
        *job, request, [](const Json&) {}, never);
    return done ? "after step " + std::to_string(done->resumed_from_step) : done.error().message();
  }
  void interrupt(const recipes::Recipe& recipe) const {
    const auto job = load(recipe);
    const auto done = train(
        *job, {.checkpoint_path = checkpoint()}, [](const Json&) {}, [] { return true; });
    EXPECT_TRUE(value_of(done).was_cancelled);
  }
  [[nodiscard]] std::filesystem::path checkpoint() const { return folder_ / "checkpoint-r-1.pt"; }

  Folder folder_;
};

TEST_F(SameData, IsKnownWhateverTheConfiguration) {
  const recipes::Recipe recipe = arrays("one", images_of(16), labels_from(0));
  const Json expected = identity_of(recipe);
  EXPECT_EQ(expected.at("train").at("samples"), kImages);
  EXPECT_EQ(expected.at("test").at("samples"), 50);
  const Configuration other = with(with(starting(recipe), "loader.workers", std::int64_t{2}),
                                   "batch_size", std::int64_t{40});
  EXPECT_EQ(value_of(load(recipe, other)->data_identity()), expected);
  recipes::Recipe in_order = recipe;
  in_order.data.parameters["shuffle"] = false;
  EXPECT_EQ(identity_of(in_order), expected);
  recipes::Recipe of_ranks = recipe;
  of_ranks.train.ranks = 2;
  EXPECT_EQ(identity_of(of_ranks), expected);
  // A part of the data is not the whole.
  recipes::Recipe split = recipe;
  split.evaluation = recipes::Evaluation{.every = "epoch"};
  split.evaluation->split_ratio = 0.25;
  EXPECT_EQ(identity_of(split).at("test").at("samples"), kImages / 4);
}

TEST_F(SameData, GoesOnWithACopy) {
  interrupt(arrays("one", images_of(16), labels_from(0)));
  const recipes::Recipe copy = arrays("two", images_of(16), labels_from(0));
  std::filesystem::last_write_time(
      folder_ / "two/images",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(24));
  EXPECT_EQ(resumed(copy), "after step 1");
}

// Files of the same names and sizes: the recipe's hash is the same.
TEST_F(SameData, RefusesOthersOfTheSameSize) {
  const recipes::Recipe recipe = arrays("one", images_of(16), labels_from(0));
  interrupt(recipe);
  const recipes::Recipe labels = arrays("two", images_of(16), labels_from(1));
  ASSERT_EQ(labels.hash(), recipe.hash());
  EXPECT_THAT(
      resumed(labels),
      AllOf(HasSubstr("the checkpoint is of other data: the training data have other labels"),
            HasSubstr(checkpoint().string()), HasSubstr("--output"), HasSubstr("--retune"),
            Not(HasSubstr("contents"))));
  EXPECT_THAT(resumed(arrays("three", images_of(17), labels_from(0))),
              AllOf(HasSubstr("the training data have other contents"), Not(HasSubstr("labels"))));
  // What was refused has left it as it was.
  EXPECT_EQ(resumed(recipe), "after step 1");
}

TEST_F(SameData, LooksAtTheTestDataToo) {
  recipes::Recipe recipe = arrays("one", images_of(16), labels_from(0));
  recipe.evaluation->data = recipe.data;
  interrupt(recipe);
  recipe.evaluation->data = arrays("two", images_of(16), labels_from(1)).data;
  EXPECT_THAT(resumed(recipe), HasSubstr("other data: the test data have other labels"));
}

// The folder of a picture is its class.
TEST_F(SameData, KnowsClassesAndFiles) {
  const Json expected = identity_of(pictures("one", "cat", "dog"));
  EXPECT_EQ(identity_of(pictures("two", "cat", "dog")), expected);
  const Json renamed = identity_of(pictures("three", "cat", "fox"));
  EXPECT_EQ(data_difference(expected, renamed),
            "the training data have other classes, other names of files");
  const recipes::Recipe moved = pictures("four", "cat", "dog");
  std::filesystem::rename(folder_ / "four/cat/422_37x51.jpg", folder_ / "four/dog/422_37x51.jpg");
  EXPECT_THAT(data_difference(expected, identity_of(moved)), HasSubstr("other labels"));
}

// So that the session can say what model a training on other data will replace.
TEST_F(SameData, IsToldBeforeTheFirstStep) {
  const recipes::Recipe recipe = arrays("one", images_of(16), labels_from(0));
  const auto job = load(recipe);
  std::vector<Json> told;
  value_of(train(
      *job, {.checkpoint_path = checkpoint(), .progress_every_ns = 0},
      [&told](const Json& progress) { told.push_back(progress); }, never));
  ASSERT_GT(told.size(), 1U);
  const Json expected = {{"data", value_of(job->data_identity())}};
  EXPECT_EQ(told.front(), expected);
  for (std::size_t i = 1; i < told.size(); ++i)
    EXPECT_FALSE(told[i].contains("data"));
}

TEST_F(SameData, RefusesToExtendWithOthers) {
  recipes::Recipe recipe = arrays("one", images_of(16), labels_from(0));
  ASSERT_EQ(told(recipe, {.checkpoint_path = checkpoint()}), "after step 0");
  const TrainRequest sequel{.checkpoint_path = folder_ / "checkpoint-r-2.pt",
                            .resume = true,
                            .extend = ExtendRequest{.state = checkpoint(), .run = "r-1"}};
  recipes::Recipe other = arrays("two", images_of(16), labels_from(1));
  recipe.train.epochs = other.train.epochs = 3;
  EXPECT_THAT(told(other, sequel),
              AllOf(HasSubstr("other data: the training data have other labels"),
                    HasSubstr("without --extend")));
  EXPECT_EQ(told(recipe, sequel), "after step 20");
}

TEST_F(SameData, TakesACheckpointThatDoesNotNameThem) {
  const recipes::Recipe recipe = arrays("one", images_of(16), labels_from(0));
  interrupt(recipe);
  const auto job = load(recipe);
  Json note = value_of(parse_json(value_of(job->import_from(checkpoint(), "old")), "note"));
  ASSERT_EQ(note.erase("data"), 1U);
  value_of(job->export_to(checkpoint(), "old", to_line(note)));
  EXPECT_EQ(resumed(recipe), "after step 1");
}

// A million encoded samples. It lists those that were read.
class ManyPictures final : public input::Dataset {
 public:
  explicit ManyPictures(std::int64_t bytes) : bytes_(bytes) {}

  std::int64_t size() const override { return 1'000'000; }
  input::SampleType type() const override {
    return input::type_of(input::Element::encoded, {3, 32, 32});
  }
  int classes() const override { return 10; }
  std::int64_t label(std::int64_t index) const override { return index % 10; }
  std::string name(std::int64_t index) const override {
    return "/data/" + std::to_string(index) + ".jpg";
  }
  Stored stored() const override { return {size(), size() * bytes_, size() * 3072}; }
  Result<input::FileStamp> read_encoded(std::int64_t index,
                                        std::vector<std::uint8_t>& out) const override {
    seen_.insert(index);
    if (is_broken) return fail(ErrorKind::io, "cannot be read", name(index));
    out.assign(10, changed == index ? 1 : 0);
    return input::FileStamp{};
  }

  [[nodiscard]] const std::set<std::int64_t>& seen() const { return seen_; }

  std::int64_t changed = -1;
  bool is_broken = false;

 private:
  std::int64_t bytes_;
  mutable std::set<std::int64_t> seen_;
};

TEST(DataIdentity, ReadsFewSamples) {
  ManyPictures small(1000);
  const Json expected = data_identity_of(small);
  EXPECT_THAT(small.seen(), testing::SizeIs(64));
  EXPECT_EQ(*small.seen().begin(), 0);
  EXPECT_GT(*small.seen().rbegin(), 980'000);
  ManyPictures large(4 << 20);
  (void)data_identity_of(large);
  EXPECT_THAT(large.seen(), testing::SizeIs(4));
  small.changed = *small.seen().rbegin();
  EXPECT_NE(data_identity_of(small).at("content"), expected.at("content"));
  // Nobody knows then whether it is another.
  small.is_broken = true;
  EXPECT_EQ(data_difference(Json{{"train", expected}}, Json{{"train", data_identity_of(small)}}),
            "");
}

}  // namespace
}  // namespace autotuned::trainer
