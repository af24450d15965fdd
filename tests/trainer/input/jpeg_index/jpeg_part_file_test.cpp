// SPDX-License-Identifier: Apache-2.0
// A part by way of a file of its own has the bytes that it has in the whole, whatever the file.
#include "trainer/input/jpeg_index/jpeg_part_file.hpp"

#include <gmock/gmock.h>

#include "tests/trainer/input/decoder_checks.hpp"
#include "tests/trainer/input/jpeg_files.hpp"
#include "trainer/input/decode/jpeg_decoder.hpp"

namespace autotuned::input {
namespace {

class PartFiles {
 public:
  explicit PartFiles(std::vector<std::uint8_t> file) : file_(std::move(file)) {
    shape_ = decoder_.begin(file_).value_or(SampleShape{});
    whole_.resize(static_cast<std::size_t>(shape_.elements()));
    const auto decoded = decoder_.decode(whole_.data());
    EXPECT_TRUE(decoded) << (decoded ? "" : decoded.error().message());
    points_ = scanner_.scan(file_);
    if (has_points()) header_ = *read_jpeg_header(file_);
  }

  [[nodiscard]] bool has_points() const { return !points_.empty(); }
  [[nodiscard]] std::span<const JpegPoint> points() const { return points_; }
  [[nodiscard]] const SampleShape& shape() const { return shape_; }

  void expect_same(const Window& part) {
    const std::string name = std::to_string(part.height) + " x " + std::to_string(part.width) +
                             " at " + std::to_string(part.top) + ", " + std::to_string(part.left);
    ASSERT_TRUE(made_.make(header_, file_, points_, part)) << name;
    const auto shape = decoder_.begin(made_.bytes());
    ASSERT_TRUE(shape) << name << ": " << shape.error().message();
    const Window& small = made_.part();
    ASSERT_LE(small.top + small.height, shape->height) << name;
    ASSERT_LE(small.left + small.width, shape->width) << name;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(3 * part.height * part.width));
    const auto decoded = decoder_.decode_part_from(made_.first_column(), small, bytes.data());
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().message();
    EXPECT_TRUE(bytes == part_of(whole_, shape_, part)) << name;
  }
  void expect_same(int count, std::uint64_t seed) {
    for (const Window& part : parts_of(shape_, count, seed))
      expect_same(part);
  }

 private:
  JpegDecoder decoder_;
  JpegScanner scanner_;
  JpegPartFile made_;
  std::vector<std::uint8_t> file_;
  JpegHeader header_;
  SampleShape shape_;
  std::vector<std::uint8_t> whole_;
  std::span<const JpegPoint> points_;
};

TEST(JpegPartFile, HasTheBytesOfTheWhole) {
  std::uint64_t seed = 0;
  for (const auto& [height, width] :
       {std::pair{97, 131}, {64, 96}, {33, 18}, {5, 70}, {71, 5}, {1, 1}, {150, 340}}) {
    for (const int quality : {5, 30, 90, 100}) {
      for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
        for (const bool has_own_codes : {false, true}) {
          for (const int restart_rows : {0, 1, 2}) {
            const JpegFile file{height, width, quality,      across,        down,
                                false,  false, restart_rows, has_own_codes, quality == 90 ? 1 : 90};
            SCOPED_TRACE(file.text());
            PartFiles parts(encoded(file));
            if (!parts.has_points()) {
              // Nothing to fill up a byte with where one code is all there is.
              EXPECT_TRUE(width == 1 && (across == 2 || has_own_codes));
              continue;
            }
            parts.expect_same(27, ++seed);
          }
        }
      }
    }
  }
}

TEST(JpegPartFile, OfGreyPictures) {
  std::uint64_t seed = 1000;
  for (const auto& [across, down] : {std::pair{1, 1}, {2, 2}}) {
    for (const bool has_own_codes : {false, true}) {
      const JpegFile file{83, 101, 90, across, down, true, false, 0, has_own_codes};
      SCOPED_TRACE(file.text());
      PartFiles parts(encoded(file));
      ASSERT_TRUE(parts.has_points());
      parts.expect_same(90, ++seed);
    }
  }
}

// Every column and every line once as the first and once as the last of a part.
TEST(JpegPartFile, AtEveryColumnAndLine) {
  for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
    const JpegFile file{70, 175, 85, across, down, false, false, 0};
    SCOPED_TRACE(file.text());
    PartFiles parts(encoded(file));
    ASSERT_TRUE(parts.has_points());
    for (int at = 0; at < 175; ++at) {
      parts.expect_same({0, at, 70, 175 - at});
      parts.expect_same({20, 0, 20, at + 1});
      parts.expect_same({31, at, 1, 1});
    }
    for (int at = 0; at < 70; ++at) {
      parts.expect_same({at, 9, 70 - at, 33});
      parts.expect_same({0, 9, at + 1, 33});
    }
  }
}

TEST(JpegPartFile, OfTheFilesThatOthersMade) {
  std::vector<std::string> without;
  std::uint64_t seed = 0;
  for (const auto& [name, facts] : fixture_index().items()) {
    if (!facts.contains("jpeg")) continue;
    SCOPED_TRACE(name);
    PartFiles parts(bytes_of_file(fixture_path(facts["jpeg"])));
    if (!parts.has_points()) {
      without.push_back(name);
      continue;
    }
    parts.expect_same(60, ++seed);
  }
  // The latter restart in the middle of rows.
  EXPECT_THAT(without, testing::Each(testing::ContainsRegex("progressive|restarts")));
}

TEST(JpegScanner, KnowsWhereMcusBegin) {
  const PartFiles parts(encoded({33, 200, 90, 2, 2, false, false, 0}));
  // 3 rows of 13 MCUs, with a point every 4, and the end.
  ASSERT_EQ(parts.points().size(), 3U * 4 + 1);
  EXPECT_EQ(parts.points()[0].bit(), 0U);
  EXPECT_THAT(parts.points()[0].dc, testing::ElementsAre(0, 0, 0));
  for (std::size_t i = 1; i < parts.points().size(); ++i)
    EXPECT_GT(parts.points()[i].bit(), parts.points()[i - 1].bit());
  EXPECT_EQ(parts.points().back().bit() % 8, 0U);
}

TEST(JpegScanner, HasNoPointsOfFilesThatLibjpegMustReadWhole) {
  JpegScanner scanner;
  for (const auto& [across, down] : {std::pair{1, 2}, {4, 1}, {2, 4}}) {
    EXPECT_TRUE(scanner.scan(encoded({64, 96, 90, across, down, false, false, 0})).empty());
  }
  EXPECT_TRUE(scanner.scan(encoded({64, 96, 90, 2, 2, false, true, 0})).empty());
  EXPECT_TRUE(scanner.scan(file_of("cmyk.jpg")).empty());
  EXPECT_TRUE(scanner.scan({}).empty());
  EXPECT_FALSE(scanner.scan(encoded({64, 96, 90, 2, 2, false, false, 0})).empty());
}

// A file that is damaged where libjpeg sees it has no points, and neither has any beginning of a file.
TEST(JpegScanner, HasNoPointsOfDamagedFiles) {
  JpegScanner scanner;
  JpegDecoder decoder;
  int with_points = 0;
  int without_points = 0;
  for (const JpegFile& made : {JpegFile{40, 70, 60, 2, 2}, JpegFile{40, 70, 60, 1, 1, true},
                               JpegFile{40, 70, 60, 2, 1, false, false, 1, true}}) {
    const auto file = encoded(made);
    for (std::size_t at = 0; at < file.size(); ++at) {
      const std::vector<std::uint8_t> cut(file.begin(),
                                          file.begin() + static_cast<std::ptrdiff_t>(at));
      EXPECT_TRUE(scanner.scan(cut).empty()) << at;
      for (const unsigned flip : {0x10U, 0xffU}) {
        auto damaged = file;
        damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ flip);
        const bool has_points = !scanner.scan(damaged).empty();
        ++(has_points ? with_points : without_points);
        if (!has_points) continue;
        const auto shape = decoder.begin(damaged);
        ASSERT_TRUE(shape) << at;
        PartFiles parts(damaged);  // expects that it decodes whole
        parts.expect_same(1, at);
      }
    }
  }
  EXPECT_GT(without_points, 500);
  EXPECT_GT(with_points, 500);
}

// Points of another file, or of none, give a wrong picture or an error, and no harm.
TEST(JpegPartFile, SurvivesWrongPoints) {
  const auto file = encoded({64, 200, 80, 2, 2});
  const JpegHeader header = *read_jpeg_header(file);
  JpegScanner scanner;
  const auto right = scanner.scan(file);
  const RandomStream random(7, 0);
  std::uint64_t drawn = 0;
  JpegDecoder decoder;
  JpegPartFile made;
  const Window part{20, 30, 30, 150};
  std::vector<std::uint8_t> pixels(std::size_t{3} * 30 * 150);
  int refused = 0;
  EXPECT_FALSE(made.make(header, file, {}, part));
  EXPECT_FALSE(made.make(header, file, right.first(right.size() - 1), part));
  for (int i = 0; i < 3000; ++i) {
    std::vector<JpegPoint> points(right.begin(), right.end());
    for (int k = 0; k <= i % 3; ++k) {
      const std::uint64_t number = random.at(drawn++);
      JpegPoint& point = points[number % points.size()];
      const auto value = static_cast<std::uint16_t>(number >> 40U);
      const auto field = (number >> 32U) % 5;
      if (field < 2) {
        point.offset[field] = value;
      } else {
        point.dc[field - 2] = static_cast<std::int16_t>(value);
      }
    }
    if (!made.make(header, file, points, part)) {
      ++refused;
      continue;
    }
    if (decoder.begin(made.bytes())) {
      (void)decoder.decode_part_from(made.first_column(), made.part(), pixels.data());
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 3000);
}

}  // namespace
}  // namespace autotuned::input
