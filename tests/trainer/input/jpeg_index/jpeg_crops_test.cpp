// SPDX-License-Identifier: Apache-2.0
// Crops of pictures of every kind, size and content, drawn at random: each has the bytes that the whole has
// there. A few thousand of them; AUTOTUNED_CROPS=1000000 asks for more, AUTOTUNED_SEED for others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "tests/trainer/input/decoder_checks.hpp"
#include "tests/trainer/input/jpeg_files.hpp"
#include "trainer/input/decode/jpeg_decoder.hpp"
#include "trainer/input/jpeg_index/jpeg_header.hpp"
#include "trainer/input/jpeg_index/jpeg_part_file.hpp"
#include "trainer/input/jpeg_index/jpeg_scan.hpp"

namespace autotuned::input {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed, 0) {}

  int below(int bound) {
    return static_cast<int>(input::below(random_.at(drawn_++), static_cast<std::uint64_t>(bound)));
  }
  bool one_in(int many) { return below(many) == 0; }
  template <class T, std::size_t kCount>
  T one_of(const std::array<T, kCount>& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(kCount)))];
  }

 private:
  RandomStream random_;
  std::uint64_t drawn_ = 0;
};

struct Sampling {
  int across;
  int down;
};
constexpr std::array<Sampling, 10> kSamplings = {
    {{1, 1}, {2, 1}, {2, 2}, {1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {2, 4}}};
constexpr std::array<JpegContent, 5> kContents = {JpegContent::waves, JpegContent::waves,
                                                  JpegContent::smooth, JpegContent::flat,
                                                  JpegContent::saturated};

JpegFile any_picture(Draws& draws, std::uint64_t seed) {
  JpegFile picture;
  picture.height = 1 + draws.below(130);
  picture.width = 1 + draws.below(130);
  if (draws.one_in(100)) {  // a photo, upright or not
    const bool is_upright = draws.one_in(2);
    picture.height = is_upright ? 800 : 533;
    picture.width = is_upright ? 533 : 800;
  }
  picture.quality = 1 + draws.below(100);
  const Sampling sampling = draws.one_of(kSamplings);
  picture.across = sampling.across;
  picture.down = sampling.down;
  picture.is_grey = draws.one_in(6);
  picture.is_progressive = draws.one_in(6);
  picture.restart_rows = draws.one_in(4) ? 1 + draws.below(3) : 0;
  picture.has_own_codes = draws.one_in(3);
  picture.noise = 1 + draws.below(200);
  picture.content = draws.one_of(kContents);
  picture.seed = seed;
  return picture;
}

// A picture in all the ways in which parts of it are decoded.
class Crops {
 public:
  explicit Crops(const JpegFile& picture) : file_(encoded(picture)), points_(scanner_.scan(file_)) {
    shape_ = decoder_.begin(file_).value_or(SampleShape{});
    whole_ = decoded(1);
  }

  [[nodiscard]] const SampleShape& shape() const { return shape_; }
  [[nodiscard]] bool is_indexed() const { return !points_.empty(); }

  [[nodiscard]] bool is_same(const Window& part) {
    return decoder_.begin(file_) && decoder_.decode_part(part, room_for(part)) &&
           room_ == part_of(whole_, shape_, part);
  }

  // REQUIRES: is_indexed().
  [[nodiscard]] bool is_same_by_index(const Window& part) {
    const auto header = read_jpeg_header(file_);
    return header && made_.make(*header, file_, points_, part) && decoder_.begin(made_.bytes()) &&
           decoder_.decode_part_from(made_.first_column(), made_.part(), room_for(part)) &&
           room_ == part_of(whole_, shape_, part);
  }

  // Compares a part of the picture that is decoded 1/by as large.
  [[nodiscard]] bool is_same_smaller(int by, Draws& draws) {
    const auto whole = decoded(by);
    (void)decoder_.begin(file_);
    const SampleShape shape = decoder_.shrink(by);
    Window part{.height = 1 + draws.below(shape.height), .width = 1 + draws.below(shape.width)};
    part.top = draws.below(shape.height - part.height + 1);
    part.left = draws.below(shape.width - part.width + 1);
    return decoder_.decode_part(part, room_for(part)) && room_ == part_of(whole, shape, part);
  }

 private:
  std::uint8_t* room_for(const Window& part) {
    room_.assign(std::size_t{3} * static_cast<std::size_t>(part.height) *
                     static_cast<std::size_t>(part.width),
                 0xab);
    return room_.data();
  }
  std::vector<std::uint8_t> decoded(int by) {
    EXPECT_TRUE(decoder_.begin(file_));
    std::vector<std::uint8_t> picture(static_cast<std::size_t>(decoder_.shrink(by).elements()));
    EXPECT_TRUE(decoder_.decode(picture.data()));
    return picture;
  }

  JpegDecoder decoder_;
  JpegScanner scanner_;
  JpegPartFile made_;
  std::vector<std::uint8_t> file_;
  std::span<const JpegPoint> points_;
  SampleShape shape_;
  std::vector<std::uint8_t> whole_;
  std::vector<std::uint8_t> room_;
};

TEST(JpegCrops, HaveTheBytesOfTheWhole) {
  const std::uint64_t wanted = number_from("AUTOTUNED_CROPS", 6'000);
  const std::uint64_t first_seed = number_from("AUTOTUNED_SEED", 1);
  RecordProperty("seed", std::to_string(first_seed));
  constexpr int kCropsOfPicture = 60;
  std::uint64_t done = 0;
  std::uint64_t by_index = 0;
  for (std::uint64_t seed = first_seed; done < wanted; ++seed) {
    Draws draws(seed);
    const JpegFile picture = any_picture(draws, seed);
    SCOPED_TRACE("AUTOTUNED_SEED=" + std::to_string(seed) + ": " + picture.text());
    Crops crops(picture);
    for (const Window& part : parts_of(crops.shape(), kCropsOfPicture, seed)) {
      const auto where = [&] {
        return std::to_string(part.height) + " x " + std::to_string(part.width) + " at " +
               std::to_string(part.top) + ", " + std::to_string(part.left);
      };
      ASSERT_TRUE(crops.is_same(part)) << where();
      ++done;
      if (!crops.is_indexed()) continue;
      ASSERT_TRUE(crops.is_same_by_index(part)) << where();
      ++done;
      ++by_index;
    }
    for (const int by : {2, 4, 8})
      ASSERT_TRUE(crops.is_same_smaller(by, draws)) << "1/" << by;
    done += 3;
  }
  EXPECT_GT(by_index, wanted / 10);
}

}  // namespace
}  // namespace autotuned::input
