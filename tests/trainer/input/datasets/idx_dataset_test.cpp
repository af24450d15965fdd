// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/golden.hpp"
#include "tests/trainer/input/datasets/idx_fixture.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::ElementsAreArray;
using testing::EndsWith;
using testing::HasSubstr;

constexpr std::uint32_t kCount = 50;
constexpr std::uint32_t kHeight = 7;
constexpr std::uint32_t kWidth = 5;
constexpr std::size_t kBytes = std::size_t{kHeight} * kWidth;

class IdxDataset : public IdxFixture {
 protected:
  void SetUp() override {
    IdxFixture::SetUp();
    for (std::size_t i = 0; i < kCount * kBytes; ++i)
      pixels_ += static_cast<char>(i * 31 % 251);
    for (std::uint32_t i = 0; i < kCount; ++i)
      labels_ += static_cast<char>(i % 10);
    good_images_ = image_header_ + pixels_;
    good_labels_ = label_header_ + labels_;
  }

  Result<std::unique_ptr<Dataset>> open(const std::string& images, const std::string& labels,
                                        Json more = Json::object()) const {
    more["images"] = write("images", images);
    more["labels"] = write("labels", labels);
    return open_dataset("idx", more);
  }
  Error error_of(const std::string& images, const std::string& labels,
                 Json more = Json::object()) const {
    const auto dataset = open(images, labels, std::move(more));
    EXPECT_FALSE(dataset);
    return dataset ? Error{} : dataset.error();
  }
  void expect_all(const Dataset& dataset, std::int64_t count) const {
    ASSERT_EQ(dataset.size(), count);
    EXPECT_EQ(dataset.type().shape(), (SampleShape{1, kHeight, kWidth}));
    EXPECT_EQ(dataset.classes(), 10);
    std::vector<std::uint8_t> bytes(kBytes);
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(dataset.label(i), i % 10);
      EXPECT_THAT(dataset.name(i), EndsWith("/labels"));
      ASSERT_TRUE(dataset.read(i, bytes));
      const std::string expected = pixels_.substr(static_cast<std::size_t>(i) * kBytes, kBytes);
      EXPECT_EQ(std::string(bytes.begin(), bytes.end()), expected);
      EXPECT_THAT(dataset.view(i), ElementsAreArray(bytes));
    }
  }

  const std::string image_header_ = idx_header({kCount, kHeight, kWidth});
  const std::string label_header_ = idx_header({kCount});
  std::string pixels_;
  std::string labels_;
  std::string good_images_;
  std::string good_labels_;
};

TEST_F(IdxDataset, ReadsPlainAndGzippedFiles) {
  for (const bool is_packed : {false, true}) {
    const auto pack = [&](const std::string& text) { return is_packed ? gzipped(text) : text; };
    const auto dataset = open(pack(good_images_), pack(good_labels_));
    ASSERT_TRUE(dataset) << dataset.error().message();
    expect_all(**dataset, kCount);
  }
}

TEST_F(IdxDataset, ReadsGzipFilesOfSeveralMembers) {
  for (const std::size_t cut : {2U, 16U, 1000U}) {
    const auto dataset =
        open(gzipped(good_images_.substr(0, cut)) + gzipped(good_images_.substr(cut)) + gzipped(""),
             good_labels_);
    ASSERT_TRUE(dataset) << dataset.error().message();
    expect_all(**dataset, kCount);
  }
}

TEST_F(IdxDataset, LimitTakesTheFirst) {
  for (const std::int64_t limit : {1, 13, 50, 99}) {
    const auto dataset =
        open(gzipped(good_images_), good_labels_, Json{{"limit", limit}, {"classes", 10}});
    ASSERT_TRUE(dataset) << dataset.error().message();
    expect_all(**dataset, std::min<std::int64_t>(limit, kCount));
  }
  EXPECT_THAT(error_of(good_images_, good_labels_, Json{{"limit", 0}}).what, HasSubstr("`limit`"));
}

TEST_F(IdxDataset, NamesAMissingFile) {
  const Json both{{"images", path("absent")}, {"labels", path("absent too")}};
  const auto dataset = open_dataset("idx", both);
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().kind, ErrorKind::not_found);
  EXPECT_EQ(dataset.error().where, path("absent"));
  EXPECT_THAT(dataset.error().remedy, HasSubstr("`images`"));

  const auto fashion = open_dataset(
      "idx", Json{{"images", path("fashion-mnist/train.gz")}, {"labels", path("absent too")}});
  ASSERT_FALSE(fashion);
  EXPECT_THAT(fashion.error().remedy, HasSubstr("dataset-fashion-mnist"));

  const auto no_labels = open_dataset("idx", Json{{"images", write("images", good_images_)}});
  ASSERT_FALSE(no_labels);
  EXPECT_THAT(no_labels.error().what, HasSubstr("labels"));
}

TEST_F(IdxDataset, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  for (const std::string& file : {path("fifo"), path(".")}) {
    const auto dataset = open_dataset("idx", Json{{"images", file}, {"labels", file}});
    ASSERT_FALSE(dataset);
    EXPECT_EQ(dataset.error().kind, ErrorKind::invalid);
    EXPECT_EQ(dataset.error().where, file);
  }
}

TEST_F(IdxDataset, TellsWhatIsWrongWithAFile) {
  tests::Cases cases(folder());
  const auto add = [&](const std::string& given, const std::string& images,
                       const std::string& labels) {
    cases.add(given, error_of(images, labels).message());
  };
  add("a PNG file", "\x89PNG and so on", good_labels_);
  add("gzip of a page", gzipped("<html>not found"), good_labels_);
  add("floats", idx_header({kCount, 7, 5}, 0x0d) + pixels_, good_labels_);
  add("images and labels exchanged", good_labels_, good_images_);
  add("no byte", "", good_labels_);
  add("a part of a header", good_images_.substr(0, 15), good_labels_);
  add("20 images and 3 bytes", good_images_.substr(0, 16 + 20 * kBytes + 3), good_labels_);
  add("9 labels", good_images_, good_labels_.substr(0, 8 + 9));
  std::string packed = gzipped(good_images_);
  add("gzip without the last bytes", packed.substr(0, packed.size() - 5), good_labels_);
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);
  add("gzip with another checksum", packed, good_labels_);
  packed = gzipped(good_images_);
  packed[10] = '\xff';  // the type of the first block
  add("gzip with a block of no type", packed, good_labels_);
  add("a byte behind the images", good_images_ + "x", good_labels_);
  add("a byte behind the images, in gzip", gzipped(good_images_ + "x"), good_labels_);
  add("a byte behind gzip", gzipped(good_images_) + "x", good_labels_);
  add("another member of gzip", gzipped(good_images_) + gzipped("x"), good_labels_);
  // None of these may take memory for what the header claims.
  constexpr std::uint32_t kMax = 0xffffffff;
  add("images of 2^64 bytes", idx_header({kCount, kMax, kMax}), good_labels_);
  add("images without rows", idx_header({kCount, 0, 5}), good_labels_);
  add("no images", idx_header({0, 7, 5}), idx_header({0}));
  add("2^32 - 1 images", idx_header({kMax, 7, 5}) + pixels_, idx_header({kMax}) + labels_);
  add("images of 1 GiB", gzipped(idx_header({kCount, 32768, 32768})), good_labels_);
  add("49 labels", good_images_, idx_header({49}) + labels_.substr(0, 49));
  tests::expect_golden("trainer/input/datasets/golden/idx.txt", cases.text());
}

TEST_F(IdxDataset, CountsWhatHalfAFileStillHas) {
  EXPECT_EQ(error_of(good_images_.substr(0, 16 + 20 * kBytes + 3), good_labels_).kind,
            ErrorKind::corrupt);
  const std::string packed = gzipped(good_images_);
  const auto half = error_of(packed.substr(0, packed.size() / 2), good_labels_);
  EXPECT_EQ(half.kind, ErrorKind::corrupt);
  EXPECT_THAT(half.what, AllOf(HasSubstr("the file ends after "), HasSubstr(" of 50 images")));
}

TEST_F(IdxDataset, ComparesTheCounts) {
  const auto error = error_of(good_images_, idx_header({49}) + labels_.substr(0, 49));
  EXPECT_EQ(error.kind, ErrorKind::invalid);
  EXPECT_EQ(error.where, path("labels"));
}

TEST_F(IdxDataset, NamesALabelOutOfRange) {
  labels_[17] = 12;
  labels_[30] = 11;
  const auto error = error_of(good_images_, label_header_ + labels_, Json{{"classes", 10}});
  EXPECT_EQ(error.where, path("labels"));
  EXPECT_THAT(error.what, HasSubstr("the label of sample 17 is 12"));
  EXPECT_TRUE(open(good_images_, label_header_ + labels_, Json{{"classes", 13}}));
  EXPECT_TRUE(open(good_images_, label_header_ + labels_, Json{{"classes", 10}, {"limit", 17}}));

  const auto unchecked = open(good_images_, label_header_ + labels_);
  ASSERT_TRUE(unchecked);
  EXPECT_EQ((*unchecked)->classes(), 13);
}

TEST(OpenDataset, RefusesAnUnknownType) {
  const auto dataset = open_dataset("tape", Json::object());
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(dataset.error().what, HasSubstr("`tape`"));
}

}  // namespace
}  // namespace autotuned::input
