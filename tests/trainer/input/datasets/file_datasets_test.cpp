// SPDX-License-Identifier: Apache-2.0
// Data sets of JPEG files and of CIFAR-10's binary files.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/golden.hpp"
#include "tests/trainer/input/datasets/idx_fixture.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/loader/sample_writer.hpp"

namespace autotuned::input {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& type, const Json& parameters) {
  const auto dataset = open_dataset(type, parameters);
  return dataset ? "" : dataset.error().message();
}

class JpegFiles : public IdxFixture {
 protected:
  void put(const std::string& fixture_name, const std::string& file) {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    std::filesystem::copy_file(fixture_path(fixture_name), path(file));
  }
  [[nodiscard]] std::unique_ptr<Dataset> open(Json parameters, const std::string& pattern,
                                              const std::string& type = "jpeg_files") const {
    parameters["files"] = path(pattern);
    auto dataset = open_dataset(type, parameters);
    EXPECT_TRUE(dataset) << (dataset ? "" : dataset.error().message());
    return dataset ? std::move(*dataset) : nullptr;
  }
};

TEST_F(JpegFiles, HaveTheExtentsOfTheirPictures) {
  put("420_16x32.jpg", "b.jpg");
  EXPECT_EQ(open({}, "*.jpg")->type().shape(), (SampleShape{3, 16, 32}));
  put("444_37x51.jpg", "a.jpg");
  const SampleType type = open({}, "*.jpg")->type();
  EXPECT_EQ(type.element, Element::encoded);
  EXPECT_EQ(type.height, (Extent{16, 37}));
  EXPECT_EQ(type.width, (Extent{32, 51}));
  EXPECT_TRUE(type.is_complete);
}

TEST_F(JpegFiles, AreReadWhenNeededInTheOrderOfTheirNames) {
  put("420_16x32.jpg", "b.jpg");
  put("444_37x51.jpg", "a.jpg");
  const auto dataset = open({{"repeat_to", 5}}, "*.jpg");
  ASSERT_EQ(dataset->size(), 5);
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(dataset->read_encoded(i, bytes));
    EXPECT_EQ(bytes, bytes_of_file(path(i % 2 == 0 ? "a.jpg" : "b.jpg")));
  }
  EXPECT_THAT(dataset->name(3), testing::EndsWith("/b.jpg"));
  std::filesystem::remove(path("b.jpg"));
  dataset->will_need(0);
  dataset->will_need(1);  // no error yet: nobody has asked for it
  const auto gone = dataset->read_encoded(1, bytes);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().kind, ErrorKind::not_found);
  EXPECT_THAT(gone.error().where, testing::EndsWith("/b.jpg"));
}

TEST_F(JpegFiles, TakeLabelsFromFoldersOrByChance) {
  for (const char* file : {"dog/1.jpg", "cat/2.jpg", "ant/3.jpg"})
    put("grey_1x1.jpg", file);
  const auto named = open({{"labels", "folder_names"}}, "*/*.jpg");
  EXPECT_EQ(named->classes(), 3);
  EXPECT_EQ(named->label(0), 0);
  EXPECT_EQ(named->label(1), 1);
  EXPECT_EQ(named->label(2), 2);
  EXPECT_NE(error_of("jpeg_files", {{"files", path("*/*.jpg")}, {"classes", 2}}), "");

  const auto random = open({{"labels", "random"}, {"repeat_to", 5000}}, "*/*.jpg");
  EXPECT_EQ(random->classes(), 10);
  std::vector<int> counts(10);
  for (std::int64_t i = 0; i < 5000; ++i)
    ++counts[static_cast<std::size_t>(random->label(i))];
  for (const int count : counts)
    EXPECT_NEAR(count, 500, 120);
  EXPECT_EQ(open({{"labels", "random"}}, "*/*.jpg")->label(2), random->label(2));
}

// What is evaluated has the numbers of what was trained on, and a folder that is not there moves none.
TEST_F(JpegFiles, TakeTheNumbersOfTheTraining) {
  for (const char* file : {"train/ant/1.jpg", "train/cat/1.jpg", "train/dog/1.jpg",
                           "test/ant/2.jpg", "test/dog/2.jpg", "new/cat/1.jpg", "new/emu/1.jpg"})
    put("grey_1x1.jpg", file);
  const auto train = open({}, "train/*/*.jpg");
  EXPECT_THAT(train->class_names(), testing::ElementsAre("ant", "cat", "dog"));
  const auto test =
      open_dataset("jpeg_files", {{"files", path("test/*/*.jpg")}}, train->class_names());
  ASSERT_TRUE(test) << test.error().message();
  EXPECT_EQ((*test)->classes(), 3);
  EXPECT_EQ((*test)->label(0), 0);
  EXPECT_EQ((*test)->label(1), 2);
  const auto other =
      open_dataset("image_files", {{"files", path("new/*/*.jpg")}}, train->class_names());
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(),
              HasSubstr("has classes that the training data do not have: emu"));
}

TEST_F(JpegFiles, NameTheFirstFileThatIsNone) {
  put("420_16x32.jpg", "a.jpg");
  put("png_rgba.png", "b.png");
  put("cmyk.jpg", "c.jpg");
  put("grey_1x1.jpg", "dog/1.jpg");
  put("grey_1x1.jpg", "emu/1.jpg");
  write("d.jpg", "not a picture");
  write("empty.jpg", "");
  tests::Cases cases(folder());
  const auto refuse = [&](const std::string& given, const Json& parameters) {
    cases.add(given, error_of("jpeg_files", parameters));
  };
  refuse("four colour components", {{"files", {path("a.jpg"), path("c.jpg")}}});
  refuse("no picture", {{"files", {path("a.jpg"), path("d*.jpg")}}});
  refuse("no file", {{"files", path("*.jpeg")}});
  refuse("no pattern", Json::object());
  refuse("an empty file", {{"files", path("empty.jpg")}});
  refuse("a PNG file", {{"files", {path("a.jpg"), path("b.png")}}});
  refuse("more folders than classes",
         {{"files", path("*/*.jpg")}, {"labels", "folder_names"}, {"classes", 1}});
  tests::expect_golden("trainer/input/datasets/golden/jpeg_files.txt", cases.text());
}

TEST_F(JpegFiles, MayBePngFilesWhereTheRecipeSaysSo) {
  put("420_16x32.jpg", "a.jpg");
  put("png_rgba.png", "b.png");
  EXPECT_NE(error_of("jpeg_files", {{"files", path("*.*")}}), "");
  const auto dataset = open({}, "*.*", "image_files");
  EXPECT_EQ(dataset->type().height, (Extent{16, 19}));
  const Pipeline pipeline =
      pipeline_of(dataset->type(), {{"decode"}, {"center_crop", {{"size", 8}}}});
  const SampleWriter writer(*dataset, pipeline);
  auto scratch = writer.make_scratch();
  std::vector<std::uint8_t> images(2 * 3 * 8 * 8);
  std::vector<std::int64_t> labels(2, -1);
  const std::vector<std::uint32_t> indices = {0, 1};
  const BatchRing::Chunk chunk{.buffer = {images.data(), labels.data()}, .indices = indices};
  ASSERT_TRUE(writer.write(chunk, PixelType::uint8, scratch));
  // Row 5 to 12 (19 - 8 = 11, half of it to even) and column 9 of the second.
  const Fixture png = fixture("png_rgba");
  EXPECT_EQ(images[3 * 8 * 8], png.bytes[6 * 26 + 9]);
}

// The whole way of a file into a batch; what is damaged is named.
TEST_F(JpegFiles, BecomeBatches) {
  put("420_37x51.jpg", "a.jpg");
  const auto dataset = open({}, "a.jpg");
  const Pipeline pipeline = pipeline_of(dataset->type(), {{"decode_jpeg"}});
  const SampleWriter writer(*dataset, pipeline);
  auto scratch = writer.make_scratch();
  const Fixture expected = fixture("420_37x51");
  std::vector<std::uint8_t> image(expected.bytes.size());
  std::int64_t label = -1;
  const std::vector<std::uint32_t> indices = {0};
  const BatchRing::Chunk chunk{.buffer = {image.data(), &label}, .indices = indices};
  ASSERT_TRUE(writer.write(chunk, PixelType::uint8, scratch));
  EXPECT_EQ(image, expected.bytes);
  EXPECT_EQ(label, 0);

  // Its content changes after it was opened.
  const auto whole = bytes_of_file(path("a.jpg"));
  write("a.jpg", std::string(whole.begin(), whole.end() - 100));
  const auto cut = writer.write(chunk, PixelType::uint8, scratch);
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message(), HasSubstr("/a.jpg: the file ends in the middle"));
  std::filesystem::copy_file(fixture_path("420_16x32.jpg"), path("a.jpg"),
                             std::filesystem::copy_options::overwrite_existing);
  const auto other = writer.write(chunk, PixelType::uint8, scratch);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("/a.jpg: has 16 x 32 pixels, which it had not"));
}

class Cifar10 : public IdxFixture {
 protected:
  // Records whose label is their number and whose bytes are all 10 times that.
  static std::string records(int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i)
      text += static_cast<char>(i) + std::string(3072, static_cast<char>(10 * i));
    return text;
  }
};

TEST_F(Cifar10, JoinsItsFiles) {
  write("data_batch_2.bin", records(3, 2));
  write("data_batch_1.bin", records(0, 3));
  write("test_batch.bin", records(9, 1));
  const auto dataset = open_dataset("cifar10", {{"files", path("data_batch_*.bin")}});
  ASSERT_TRUE(dataset) << dataset.error().message();
  EXPECT_EQ((*dataset)->size(), 5);
  EXPECT_EQ((*dataset)->classes(), 10);
  EXPECT_EQ((*dataset)->type().shape(), (SampleShape{3, 32, 32}));
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ((*dataset)->label(i), i);
    const std::vector<std::uint8_t> expected(3072, static_cast<std::uint8_t>(10 * i));
    std::vector<std::uint8_t> read(3072);
    ASSERT_TRUE((*dataset)->read(i, read));
    EXPECT_EQ(read, expected);
    EXPECT_TRUE(std::ranges::equal((*dataset)->view(i), expected));
  }
}

TEST_F(Cifar10, NamesWhatIsWrong) {
  write("cut.bin", records(0, 2).substr(0, 5000));
  write("labels.bin", records(9, 2));
  write("empty.bin", "");
  tests::Cases cases(folder());
  for (const char* file : {"cut.bin", "labels.bin", "empty.bin", "none*.bin"})
    cases.add(file, error_of("cifar10", {{"files", path(file)}}));
  tests::expect_golden("trainer/input/datasets/golden/cifar10.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::input
