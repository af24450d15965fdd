// SPDX-License-Identifier: Apache-2.0
// What is remembered of JPEG files: that it is used, that it never changes a pixel, and that it is dropped where
// it is not of the file as it is now.
#include "trainer/input/jpeg_index/jpeg_index.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <zlib.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/base/temporary_folder.hpp"
#include "tests/trainer/input/decoder_checks.hpp"
#include "tests/trainer/input/jpeg_files.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/jpeg_index/jpeg_part_decoder.hpp"
#include "trainer/input/loader/sample_writer.hpp"

namespace autotuned::input {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kPlenty = 1 << 20;

std::unique_ptr<JpegIndex> index_of(std::int64_t items, std::int64_t bytes = kPlenty) {
  auto index = JpegIndex::create(items, bytes);
  EXPECT_TRUE(index) << (index ? "" : index.error().message());
  return index ? std::move(*index) : nullptr;
}

std::vector<JpegPoint> some_points(std::uint16_t count) {
  std::vector<JpegPoint> points;
  for (std::uint16_t i = 0; i < count; ++i)
    points.push_back({{i, 1}, {static_cast<std::int16_t>(-i), 2, 3}});
  return points;
}

bool is_same(std::span<const JpegPoint> one, std::span<const JpegPoint> other) {
  return std::ranges::equal(one, other, [](const JpegPoint& a, const JpegPoint& b) {
    return a.offset == b.offset && a.dc == b.dc;
  });
}

TEST(JpegIndex, GivesBackThePointsOfAFileAsItWas) {
  const auto index = index_of(3);
  const std::vector<std::uint8_t> file = {1, 2, 3, 4};
  const FileStamp stamp{4, 17};
  EXPECT_FALSE(index->find(1, stamp, file));
  EXPECT_TRUE(index->is_wanted(1));
  index->keep(1, stamp, file, some_points(5));
  const auto found = index->find(1, stamp, file);
  ASSERT_TRUE(found);
  EXPECT_TRUE(is_same(*found, some_points(5)));
  EXPECT_FALSE(index->is_wanted(1));
  index->keep(2, stamp, file, {});
  ASSERT_TRUE(index->find(2, stamp, file));  // known to have none
  EXPECT_THAT(*index->find(2, stamp, file), IsEmpty());
  EXPECT_EQ(index->kept_items(), 2);
  EXPECT_TRUE(index->has_news());
}

TEST(JpegIndex, DropsWhatIsNotOfTheFileAsItIs) {
  const std::vector<std::uint8_t> file = {1, 2, 3, 4};
  const std::vector<std::uint8_t> longer = {1, 2, 3, 4, 5};
  const auto index = index_of(1);
  const auto keep = [&] { index->keep(0, {4, 17}, file, some_points(2)); };
  keep();
  EXPECT_FALSE(index->find(0, {4, 18}, file));
  EXPECT_TRUE(index->is_wanted(0));
  keep();
  EXPECT_FALSE(index->find(0, {5, 17}, longer));
  EXPECT_TRUE(index->is_wanted(0));
  keep();
  EXPECT_FALSE(index->find(0, {4, 17}, longer));  // it grows just now
  index->keep(0, {4, 17}, longer, some_points(2));
  EXPECT_TRUE(index->is_wanted(0));
  keep();
  EXPECT_TRUE(index->find(0, {4, 17}, file));
  index->drop(0);
  EXPECT_FALSE(index->find(0, {4, 17}, file));
  EXPECT_EQ(index->kept_items(), 0);
}

TEST(JpegIndex, StaysWithinItsBytes) {
  const auto index = index_of(100, 4096);
  const std::vector<std::uint8_t> file = {1};
  for (std::int64_t i = 0; i < 100; ++i)
    index->keep(i, {1, 1}, file, some_points(20));
  EXPECT_LE(index->bytes(), 4096);
  EXPECT_GT(index->kept_items(), 5);
  EXPECT_FALSE(index->find(99, {1, 1}, file));
}

// Files that change again and again: each time their entries are new ones.
TEST(JpegIndex, StaysUsefulForFilesThatChange) {
  constexpr std::int64_t kItems = 10;
  const auto index = index_of(kItems, 8192);
  const std::vector<std::uint8_t> file = {1, 2, 3, 4};
  for (std::int64_t change = 0; change < 100; ++change) {
    for (std::int64_t i = 0; i < kItems; ++i) {
      if (change > 0) {
        EXPECT_FALSE(index->find(i, {4, change}, file));
      }
      index->keep(i, {4, change}, file, some_points(20));
    }
    if (index->is_worth_compacting()) index->compact();
    for (std::int64_t i = 0; i < kItems; ++i) {
      if (!index->find(i, {4, change}, file)) index->keep(i, {4, change}, file, some_points(20));
      const auto found = index->find(i, {4, change}, file);
      ASSERT_TRUE(found) << i << " after change " << change;
      ASSERT_TRUE(is_same(*found, some_points(20)));
    }
    ASSERT_LE(index->bytes(), 8192);
  }
}

class StoredIndex : public testing::Test {
 protected:
  void SetUp() override {
    const auto index = index_of(4);
    index->keep(0, {4, 17}, file_, some_points(3));
    index->keep(2, {4, 18}, file_, {});
    ASSERT_TRUE(index->save(path_, "some data"));
    EXPECT_FALSE(index->has_news());
  }
  [[nodiscard]] std::string content() const {
    const auto bytes = bytes_of_file(path_);
    return {bytes.begin(), bytes.end()};
  }
  void put(const std::string& content) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "index";
  std::vector<std::uint8_t> file_ = {1, 2, 3, 4};
};

TEST_F(StoredIndex, IsTheSameWhenLoaded) {
  const auto index = index_of(4);
  const auto loaded = index->load(path_, "some data");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_FALSE(index->has_news());
  EXPECT_EQ(index->kept_items(), 2);
  const auto found = index->find(0, {4, 17}, file_);
  ASSERT_TRUE(found);
  EXPECT_TRUE(is_same(*found, some_points(3)));
  EXPECT_THAT(*index->find(2, {4, 18}, file_), IsEmpty());
  EXPECT_FALSE(index->find(1, {4, 18}, file_));
}

TEST_F(StoredIndex, IsOfFilesWithTheSameBytes) {
  const auto index = index_of(4);
  ASSERT_TRUE(index->load(path_, "some data"));
  const std::vector<std::uint8_t> other = {1, 2, 3, 5};
  EXPECT_FALSE(index->find(0, {4, 17}, other));
  EXPECT_TRUE(index->is_wanted(0));
}

TEST_F(StoredIndex, IsNotTakenForOtherData) {
  EXPECT_EQ(index_of(4)->load(path_, "other data").error().kind, ErrorKind::not_found);
  EXPECT_EQ(index_of(5)->load(path_, "some data").error().kind, ErrorKind::not_found);
  EXPECT_EQ(index_of(4)->load(folder_.path() / "none", "some data").error().kind,
            ErrorKind::not_found);
}

TEST_F(StoredIndex, IsRefusedWhereDamaged) {
  const std::string whole = content();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put(whole.substr(0, length));
    const auto index = index_of(4);
    const auto loaded = index->load(path_, "some data");
    ASSERT_FALSE(loaded) << length;
    EXPECT_EQ(loaded.error().kind, ErrorKind::corrupt);
    EXPECT_EQ(index->kept_items(), 0);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    put(damaged);
    ASSERT_FALSE(index_of(4)->load(path_, "some data")) << at;
  }
  put(whole + "x");
  EXPECT_FALSE(index_of(4)->load(path_, "some data"));
  put(whole);
  EXPECT_TRUE(index_of(4)->load(path_, "some data"));
}

// Header, key, entries with their items, checksum: indices of before are read.
TEST_F(StoredIndex, HasTheFormThatItHad) {
  std::string expected = "autotuned-jpeg-index-1\n";
  const auto append = [&](const auto& value) {
    expected.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const std::uint64_t number : {9, 4, 2})  // bytes of the key, items, entries
    append(number);
  expected += "some data";
  const auto checksum = [](const void* bytes, std::size_t count) {
    return static_cast<std::uint32_t>(::crc32_z(0, static_cast<const Bytef*>(bytes), count));
  };
  const auto append_entry = [&](std::int64_t item, const FileStamp& stamp,
                                const std::vector<JpegPoint>& points) {
    append(item);
    append(stamp);
    append(checksum(file_.data(), file_.size()));
    append(static_cast<std::uint32_t>(points.size()));
    for (const JpegPoint& point : points)
      append(point);
  };
  append_entry(0, {4, 17}, some_points(3));
  append_entry(2, {4, 18}, {});
  append(checksum(expected.data(), expected.size()));
  EXPECT_EQ(content(), expected);
}

// The index has more than one piece each way; if memory is short, as much of it as there is room for.
TEST_F(StoredIndex, MayBeLarge) {
  constexpr std::int64_t kItems = 700;
  const auto large = index_of(kItems, std::int64_t{16} << 20U);
  for (std::int64_t i = 0; i < kItems; ++i)
    large->keep(i, {4, i}, file_, some_points(static_cast<std::uint16_t>(i)));
  ASSERT_TRUE(large->save(path_, "large"));
  EXPECT_GT(std::filesystem::file_size(path_), 2'000'000U);
  const auto index = index_of(kItems, std::int64_t{16} << 20U);
  const auto loaded = index->load(path_, "large");
  ASSERT_TRUE(loaded) << loaded.error().message();
  for (std::int64_t i = 0; i < kItems; ++i) {
    const auto found = index->find(i, {4, i}, file_);
    ASSERT_TRUE(found) << i;
    ASSERT_TRUE(is_same(*found, some_points(static_cast<std::uint16_t>(i)))) << i;
  }
  const auto small = index_of(kItems, 1 << 20);
  ASSERT_TRUE(small->load(path_, "large"));
  EXPECT_GT(small->kept_items(), 100);
  EXPECT_LE(small->bytes(), 1 << 20);
}

// The file stays as it was, nothing is left beside it, and there is still something to save.
TEST_F(StoredIndex, SaysWhyItCannotBeWritten) {
  const std::string before = content();
  const auto large = index_of(4);
  large->keep(0, {4, 1}, file_, some_points(20'000));
  const auto missing = large->save(folder_.path() / "none/index", "some data");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_TRUE(large->has_news());

  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit little{100'000, limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const auto full = large->save(path_, "some data");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().where, path_.string());
  EXPECT_THAT(full.error().remedy, HasSubstr("XDG_CACHE_HOME"));
  EXPECT_TRUE(large->has_news());
  EXPECT_EQ(content(), before);
  const auto entries = std::filesystem::directory_iterator(folder_.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

class IndexedFiles : public testing::Test {
 protected:
  void put(const std::string& name, const std::vector<std::uint8_t>& bytes) const {
    folder_.write(name, std::string(bytes.begin(), bytes.end()));
  }
  [[nodiscard]] std::unique_ptr<Dataset> open() const {
    auto dataset = open_dataset(
        "jpeg_files", {{"files", (folder_.path() / "*.jpg").string()}, {"labels", "random"}});
    EXPECT_TRUE(dataset) << (dataset ? "" : dataset.error().message());
    return dataset ? std::move(*dataset) : nullptr;
  }
  [[nodiscard]] static Pipeline pipeline(const Dataset& data, bool is_indexed,
                                         CacheKind cache = CacheKind::none) {
    const std::vector<Transform> transforms = {
        {"decode_jpeg"}, {"random_crop", {{"size", {40, 48}}}}, {"scale", {{"by", "1/255"}}}};
    auto made =
        Pipeline::compile(data.type(), transforms, 1,
                          {.decodes_crop = true, .cache = cache, .indexes_jpegs = is_indexed});
    EXPECT_TRUE(made) << (made ? "" : made.error().message());
    return made ? std::move(*made) : Pipeline();
  }
  // A sample in one epoch.
  [[nodiscard]] static std::vector<float> load(const Dataset& data, const Pipeline& pipeline,
                                               Kept kept, std::int64_t sample, std::int64_t epoch) {
    const SampleWriter writer(data, pipeline, kept);
    auto scratch = writer.make_scratch();
    std::vector<float> out(static_cast<std::size_t>(pipeline.shape().elements()));
    std::int64_t label = 0;
    const std::vector<std::uint32_t> indices = {static_cast<std::uint32_t>(sample)};
    BatchRing::Chunk chunk;
    chunk.indices = indices;
    chunk.position = {epoch, sample};
    chunk.buffer = {out.data(), &label};
    const auto written = writer.write(chunk, PixelType::float32, scratch);
    EXPECT_TRUE(written) << (written ? "" : written.error().message());
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(IndexedFiles, HaveTheSamePixels) {
  put("a.jpg", encoded({120, 160, 90, 2, 2}));
  put("b.jpg", encoded({90, 100, 70, 1, 1, false, false, 0, true}));
  put("c.jpg", encoded({90, 100, 70, 2, 2, false, true}));  // progressive: without
  put("d.jpg", encoded({64, 300, 70, 2, 1, true}));
  const auto data = open();
  const Pipeline plain = pipeline(*data, false);
  EXPECT_FALSE(plain.is_indexed());
  for (const CacheKind cache_kind : {CacheKind::none, CacheKind::raw}) {
    const Pipeline indexed = pipeline(*data, true, cache_kind);
    ASSERT_TRUE(indexed.is_indexed());
    const auto index = index_of(4);
    const auto cache = SampleCache::create(4, kPlenty);
    Kept kept{.index = index.get()};
    if (cache_kind == CacheKind::raw) kept.cache = cache->get();
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
      for (std::int64_t sample = 0; sample < 4; ++sample) {
        EXPECT_EQ(load(*data, indexed, kept, sample, epoch), load(*data, plain, {}, sample, epoch))
            << sample << " in epoch " << epoch;
      }
      EXPECT_EQ(index->kept_items(), 4);
    }
  }
}

// A cache of decoded pictures without room for all: the others are decoded as if there were none.
TEST_F(IndexedFiles, AreThoseThatTheCacheHasNoRoomFor) {
  put("a.jpg", encoded({120, 160, 90, 2, 2}));
  put("b.jpg", encoded({120, 160, 90, 2, 2}));
  put("c.jpg", encoded({120, 160, 70, 1, 1}));
  const auto data = open();
  const Pipeline plain = pipeline(*data, false);
  const Pipeline kept_whole = pipeline(*data, true, CacheKind::decoded);
  ASSERT_TRUE(kept_whole.is_indexed());
  constexpr std::int64_t kPicture = std::int64_t{3} * 120 * 160;
  const auto cache = SampleCache::create(3, kPicture + 1000);  // room for one
  const auto index = index_of(3);
  const Kept kept{cache->get(), index.get()};
  for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
    for (std::int64_t sample = 0; sample < 3; ++sample) {
      EXPECT_EQ(load(*data, kept_whole, kept, sample, epoch), load(*data, plain, {}, sample, epoch))
          << sample << " in epoch " << epoch;
    }
  }
  EXPECT_EQ((*cache)->kept_items(), 1);
  // The first attempts to keep the others decoded them whole; then they are cut, and indexed.
  EXPECT_EQ(index->kept_items(), 2);
}

TEST_F(IndexedFiles, AreNotThoseThatTheCacheKeepsDecoded) {
  put("a.jpg", encoded({120, 160, 90, 2, 2}));
  put("b.jpg", encoded({120, 160, 90, 2, 2}));
  const auto data = open();
  const Pipeline kept_whole = pipeline(*data, true, CacheKind::decoded);
  const auto cache = SampleCache::create(2, std::int64_t{3} * 120 * 160 + 1000);  // room for one
  const auto index = index_of(2);
  const SampleWriter writer(*data, kept_whole, {cache->get(), index.get()});
  auto scratch = writer.make_scratch();
  for (int round = 0; round < 2; ++round) {
    for (const std::int64_t sample : {0, 1})
      ASSERT_TRUE(writer.keep(sample, scratch));
  }
  EXPECT_EQ((*cache)->kept_items(), 1);
  EXPECT_EQ(index->kept_items(), 1);
}

TEST_F(IndexedFiles, AreIndexedAheadWithoutMakingSamples) {
  put("a.jpg", encoded({120, 160, 90, 2, 2}));
  const auto data = open();
  const Pipeline indexed = pipeline(*data, true);
  const auto index = index_of(1);
  const SampleWriter writer(*data, indexed, {.index = index.get()});
  auto scratch = writer.make_scratch();
  ASSERT_TRUE(writer.keep(0, scratch));
  EXPECT_EQ(index->kept_items(), 1);
  const std::int64_t bytes = index->bytes();
  ASSERT_TRUE(writer.keep(0, scratch));
  EXPECT_EQ(index->bytes(), bytes);
}

// The proof that the index is used: of the code, only that of the crop need be right.
TEST_F(IndexedFiles, AreNotReadAboveTheCrop) {
  const auto file = encoded({200, 160, 90, 2, 2});
  JpegScanner scanner;
  const auto points = scanner.scan(file);
  const JpegHeader header = *read_jpeg_header(file);
  const Window part{120, 60, 30, 40};
  const auto first = static_cast<std::size_t>(points_in_row(header)) * (119 / 16);
  auto damaged = file;
  std::fill(
      damaged.begin() + static_cast<std::ptrdiff_t>(header.scan_begin),
      damaged.begin() + static_cast<std::ptrdiff_t>(header.scan_begin + points[first].bit() / 8),
      std::uint8_t{0x55});
  const auto index = index_of(1);
  const FileStamp stamp{static_cast<std::int64_t>(file.size()), 5};
  index->keep(0, stamp, file, points);
  JpegPartDecoder decoder;
  const Sample sample{Element::encoded, {}, damaged, {stamp, 0, index.get()}};
  ASSERT_EQ(decoder.begin(sample), (SampleShape{3, 200, 160}));
  std::vector<std::uint8_t> pixels(std::size_t{3} * 30 * 40);
  ASSERT_TRUE(decoder.decode(part, pixels.data()));
  JpegDecoder plain;
  const auto whole = decode(plain, file);
  ASSERT_TRUE(whole);
  EXPECT_EQ(pixels, part_of(*whole, {3, 200, 160}, part));
}

TEST_F(IndexedFiles, AreIndexedAgainWhenTheyChanged) {
  const auto first = encoded({120, 160, 90, 2, 2});
  const auto second = encoded({120, 160, 90, 2, 2, false, false, 0, false, 20});
  put("a.jpg", first);
  const auto data = open();
  const Pipeline plain = pipeline(*data, false);
  const Pipeline indexed = pipeline(*data, true);
  const auto index = index_of(1);
  const Kept kept{.index = index.get()};
  const auto before = load(*data, indexed, kept, 0, 1);
  EXPECT_EQ(before, load(*data, plain, {}, 0, 1));
  const auto time = std::filesystem::last_write_time(folder_.path() / "a.jpg");
  put("a.jpg", second);
  std::filesystem::last_write_time(folder_.path() / "a.jpg", time + std::chrono::seconds(1));
  for (int i = 0; i < 2; ++i) {
    const auto after = load(*data, indexed, kept, 0, 1);
    EXPECT_EQ(after, load(*data, plain, {}, 0, 1));
    EXPECT_NE(after, before);
  }
  std::vector<std::uint8_t> bytes;
  const auto stamp = data->read_encoded(0, bytes);
  ASSERT_TRUE(stamp);
  EXPECT_TRUE(index->find(0, *stamp, bytes));
}

// Whatever an index says, the pixels are right, or another file's.
TEST_F(IndexedFiles, AreDecodedAsEverWhereTheIndexIsOfNoUse) {
  put("a.jpg", encoded({120, 160, 90, 2, 2}));
  const auto data = open();
  const Pipeline plain = pipeline(*data, false);
  const Pipeline indexed = pipeline(*data, true);
  const auto index = index_of(1);
  std::vector<std::uint8_t> bytes;
  const auto stamp = data->read_encoded(0, bytes);
  ASSERT_TRUE(stamp);
  index->keep(0, *stamp, bytes, some_points(7));  // too few
  EXPECT_EQ(load(*data, indexed, {.index = index.get()}, 0, 3), load(*data, plain, {}, 0, 3));
  const auto found = index->find(0, *stamp, bytes);
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, IsEmpty());  // and not tried again
}

}  // namespace
}  // namespace autotuned::input
