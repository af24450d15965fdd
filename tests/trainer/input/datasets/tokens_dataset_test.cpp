// SPDX-License-Identifier: Apache-2.0
// Tokens of files and made-up ones, cut into blocks, and their way into a batch.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/input/datasets/npy_fixture.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/datasets/split_dataset.hpp"
#include "trainer/input/loader/loader.hpp"

namespace autotuned::input {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Tokens = std::vector<std::int32_t>;

Tokens block_of(const Dataset& data, std::int64_t index) {
  Tokens tokens(static_cast<std::size_t>(data.type().shape().elements()));
  const auto read =
      data.read(index, {reinterpret_cast<std::uint8_t*>(tokens.data()), tokens.size() * 4});
  EXPECT_TRUE(read) << (read ? "" : read.error().message());
  return tokens;
}

class TokenFiles : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::unique_ptr<Dataset> open(const Json& files, Json parameters) const {
    parameters["files"] = files;
    auto data = open_dataset("tokens", parameters);
    EXPECT_TRUE(data) << (data ? "" : data.error().message());
    return data ? std::move(*data) : nullptr;
  }
  [[nodiscard]] std::string error_of(const std::string& name, Json parameters) const {
    parameters["files"] = path(name);
    const auto data = open_dataset("tokens", parameters);
    EXPECT_FALSE(data);
    return data ? "" : data.error().message();
  }

  TemporaryFolder folder_;
};

TEST_F(TokenFiles, OfATextAreItsBytes) {
  folder_.write("a.txt", "abcdefgh\xff");
  const auto data = open(path("a.txt"), {{"context", 3}});
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->type(), type_of(Element::token, {1, 1, 4}));
  EXPECT_EQ(data->target(), (TargetType{TargetKind::next_tokens, 3}));
  EXPECT_EQ(data->classes(), 256);
  EXPECT_TRUE(data->has_bytes());
  // Each block begins with the last token of the one before. The rest, shorter than a block, is left out.
  ASSERT_EQ(data->size(), 2);
  EXPECT_THAT(block_of(*data, 0), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(block_of(*data, 1), ElementsAre('d', 'e', 'f', 'g'));
  EXPECT_EQ(data->name(1), "the block at token 3 of " + path("a.txt"));
  EXPECT_EQ(data->overlap(), 0);

  const auto close = open(path("a.txt"), {{"context", 3}, {"stride", 1}});
  ASSERT_EQ(close->size(), 6);
  EXPECT_THAT(block_of(*close, 5), ElementsAre('f', 'g', 'h', 255));
  EXPECT_EQ(close->overlap(), 2);
}

// A tokenizer of few tokens writes bytes, too.
TEST_F(TokenFiles, OfASmallVocabularyAreNoBytes) {
  folder_.write("a.txt", std::string("\x01\x02\x03\x40", 4));
  const auto small = open(path("a.txt"), {{"context", 3}, {"vocabulary", 65}});
  ASSERT_NE(small, nullptr);
  EXPECT_FALSE(small->has_bytes());
  EXPECT_TRUE(open(path("a.txt"), {{"context", 3}, {"vocabulary", 300}})->has_bytes());
}

TEST_F(TokenFiles, AreJoined) {
  folder_.write("1.txt", "abc");
  folder_.write("2.txt", "");
  folder_.write("3.txt", "defgh");
  const auto data = open(path("*.txt"), {{"context", 4}, {"stride", 3}});
  ASSERT_EQ(data->size(), 2);
  EXPECT_THAT(block_of(*data, 0), ElementsAre('a', 'b', 'c', 'd', 'e'));
  EXPECT_THAT(block_of(*data, 1), ElementsAre('d', 'e', 'f', 'g', 'h'));
  EXPECT_EQ(data->name(1), "the block at token 0 of " + path("3.txt"));
  data->will_need(0);
}

TEST_F(TokenFiles, OfEachTypeAreTheSame) {
  const Tokens expected = {5, 0, 70'000, 3};
  const auto check = [&](const char* name, const std::string& content, const Json& more) {
    folder_.write(name, content);
    Json parameters = {{"context", 3}};
    parameters.update(more);
    const auto data = open(path(name), parameters);
    ASSERT_NE(data, nullptr) << name;
    EXPECT_EQ(block_of(*data, 0), expected) << name;
    EXPECT_EQ(data->classes(), 70'001) << name;
    EXPECT_FALSE(data->has_bytes());
  };
  const std::string wide = bytes_of_numbers<std::int64_t>({5, 0, 70'000, 3});
  const std::string narrow = bytes_of_numbers<std::uint32_t>({5, 0, 70'000, 3});
  check("a.bin", narrow, {{"dtype", "uint32"}});
  check("b.bin", narrow, {{"dtype", "int32"}});
  check("c.bin", wide, {{"dtype", "int64"}});
  check("d.npy", npy_file("<i8", "(4,)", wide), Json::object());
  check("e.npy", npy_file("<u4", "(4,)", narrow), Json::object());

  folder_.write("f.bin", bytes_of_numbers<std::uint16_t>({5, 0, 50'256, 3}));
  const auto data = open(path("f.bin"), {{"context", 3}, {"vocabulary", 50'257}});
  EXPECT_THAT(block_of(*data, 0), ElementsAre(5, 0, 50'256, 3));
  EXPECT_EQ(data->classes(), 50'257);
  EXPECT_THAT(data->doubt(), IsEmpty());
}

TEST_F(TokenFiles, ThatLookWiderAreDoubted) {
  folder_.write("a.bin", bytes_of_numbers<std::uint32_t>({5, 1, 7, 3}));
  EXPECT_THAT(open(path("a.bin"), {{"context", 3}})->doubt(), HasSubstr("write dtype: uint32"));
}

TEST_F(TokenFiles, SayWhatIsWrongWithThem) {
  tests::Cases cases(folder_.path());
  const auto add = [&](const std::string& name, const std::string& content,
                       const Json& parameters = {{"context", 1}}) {
    folder_.write(name, content);
    cases.add(name + " " + parameters.dump(), error_of(name, parameters));
  };
  add("short.txt", "abc", {{"context", 3}});
  add("odd.bin", "abc");
  add("large.bin", bytes_of_numbers<std::uint16_t>({1, 2, 65, 3}),
      {{"context", 1}, {"vocabulary", 65}});
  add("negative.npy", npy_file("<i4", "(3,)", bytes_of_numbers<std::int32_t>({1, -1, 0})));
  add("bytes.txt", "ab\xff", {{"context", 1}, {"vocabulary", 128}});
  add("floats.npy", npy_file("<f4", "(1,)", "abcd"));
  add("square.npy", npy_file("<i4", "(1, 1)", "abcd"));
  add("a.txt.gz", "abcdefg");
  cases.add("none.txt", error_of("none.txt", {{"context", 1}}));
  folder_.write("mixed.bin", "abcd");
  folder_.write("mixed.txt", "abcd");
  cases.add("mixed.*", error_of("mixed.*", {{"context", 1}}));
  tests::expect_golden("trainer/input/datasets/golden/tokens.txt", cases.text());
}

// What was found at the opening no longer holds.
TEST_F(TokenFiles, AreCheckedWhenTheyAreRead) {
  folder_.write("a.bin", bytes_of_numbers<std::uint16_t>({1, 2, 3, 4, 5}));
  const auto data = open(path("a.bin"), {{"context", 2}});
  folder_.write("a.bin", bytes_of_numbers<std::uint16_t>({1, 2, 3, 4, 9}));
  Tokens tokens(3);
  const auto read = data->read(1, {reinterpret_cast<std::uint8_t*>(tokens.data()), 12});
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message(), HasSubstr("token 4 is 9, and the vocabulary is 6"));
}

TEST_F(TokenFiles, AreSplitAtTheirEnd) {
  folder_.write("a.txt", "abcdefghijklmnopqrstu");  // 21: ten blocks of two and one
  const auto split = [&](const Json& parameters, double share) {
    auto parts = split_dataset(open(path("a.txt"), parameters), share, 1);
    EXPECT_TRUE(parts) << (parts ? "" : parts.error().message());
    return parts ? std::move(*parts) : SplitData{};
  };
  const SplitData parts = split({{"context", 2}}, 0.2);
  ASSERT_EQ(parts.train->size(), 8);
  ASSERT_EQ(parts.test->size(), 2);
  EXPECT_THAT(block_of(*parts.train, 7), ElementsAre('o', 'p', 'q'));
  EXPECT_THAT(block_of(*parts.test, 0), ElementsAre('q', 'r', 's'));
  EXPECT_THAT(block_of(*parts.test, 1), ElementsAre('s', 't', 'u'));
  EXPECT_TRUE(parts.test->has_bytes());
  EXPECT_TRUE(parts.test->target().has_tokens());

  // 19 blocks. The test begins at the sixteenth, and the training ends before its first target, which is q.
  const SplitData close = split({{"context", 2}, {"stride", 1}}, 0.21);
  ASSERT_EQ(close.train->size(), 14);
  EXPECT_THAT(block_of(*close.train, 13), ElementsAre('n', 'o', 'p'));
  ASSERT_EQ(close.test->size(), 2);
  EXPECT_THAT(block_of(*close.test, 0), ElementsAre('p', 'q', 'r'));
  EXPECT_THAT(block_of(*close.test, 1), ElementsAre('r', 's', 't'));

  const auto none = split_dataset(open(path("a.txt"), {{"context", 18}, {"stride", 1}}), 0.5, 1);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("nothing is left to train on"));
}

TEST(SyntheticTokens, MostlyFollowFromTheOneBefore) {
  const auto open = [](int seed) {
    return open_dataset("synthetic_tokens",
                        {{"samples", 50}, {"context", 99}, {"vocabulary", 20}, {"seed", seed}});
  };
  const auto data = open(1);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 50);
  EXPECT_EQ((*data)->classes(), 20);
  EXPECT_FALSE((*data)->overlap());
  EXPECT_EQ(block_of(**data, 7), block_of(**open(1), 7));
  EXPECT_NE(block_of(**data, 7), block_of(**data, 8));
  EXPECT_NE(block_of(**data, 7), block_of(**open(2), 7));
  // How often the most frequent one follows each.
  std::vector<std::vector<int>> counts(20, std::vector<int>(20));
  for (std::int64_t i = 0; i < 50; ++i) {
    const Tokens block = block_of(**data, i);
    for (std::size_t k = 0; k + 1 < block.size(); ++k)
      ++counts[static_cast<std::size_t>(block[k])][static_cast<std::size_t>(block[k + 1])];
  }
  int expected = 0;
  for (const std::vector<int>& row : counts)
    expected += *std::ranges::max_element(row);
  EXPECT_NEAR(expected / (50.0 * 99.0), 0.75 + 0.25 / 20, 0.04);
}

// A batch holds blocks as they are, whichever worker fills it.
TEST_F(TokenFiles, ReachTheBatch) {
  folder_.write("a.txt", "abcdefghijklm");
  const auto data = open(path("a.txt"), {{"context", 3}});
  const auto pipeline = Pipeline::compile(data->type(), {}, 1);
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  EXPECT_EQ(pipeline->table(), nullptr);
  EXPECT_FALSE(pipeline->has_stages());
  for (const int workers : {0, 2}) {
    std::vector<Tokens> rooms(2, Tokens(8));
    std::vector<std::vector<std::int64_t>> labels(2, std::vector<std::int64_t>(2));
    LoaderSettings settings{.workers = workers, .batch_size = 2};
    for (std::size_t i = 0; i < rooms.size(); ++i)
      settings.ring.push_back({.images = rooms[i].data(), .labels = labels[i].data()});
    const auto loader =
        Loader::create(*data, {.seed = 1, .is_shuffled = false}, *pipeline, std::move(settings));
    ASSERT_TRUE(loader) << loader.error().message();
    (*loader)->resume();
    const auto batch = (*loader)->next();
    ASSERT_TRUE(batch) << batch.error().message();
    EXPECT_THAT(rooms[static_cast<std::size_t>(batch->slot)],
                ElementsAre('a', 'b', 'c', 'd', 'd', 'e', 'f', 'g'));
  }
}

TEST_F(TokenFiles, TakeNoTransforms) {
  folder_.write("a.txt", "abcdefghijklm");
  const auto data = open(path("a.txt"), {{"context", 3}});
  const std::vector<Transform> transforms = {{"to_float"}};
  const auto refused = Pipeline::compile(data->type(), transforms, 1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("input[0].to_float: is for pictures, and the samples are tokens"));
  std::vector<Tokens> rooms(1, Tokens(8));
  std::vector<std::int64_t> labels(2);
  LoaderSettings settings{.batch_size = 2, .pixel_type = PixelType::uint8};
  settings.ring.push_back({.images = rooms[0].data(), .labels = labels.data()});
  const auto pipeline = Pipeline::compile(data->type(), {}, 1);
  const auto loader =
      Loader::create(*data, {.seed = 1, .is_shuffled = false}, *pipeline, std::move(settings));
  ASSERT_FALSE(loader);
  EXPECT_THAT(loader.error().message(), HasSubstr("the samples are tokens"));
}

}  // namespace
}  // namespace autotuned::input
