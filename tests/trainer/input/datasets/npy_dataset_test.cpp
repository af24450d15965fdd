// SPDX-License-Identifier: Apache-2.0
// Data sets of .npy files.
#include <gmock/gmock.h>

#include <cstdint>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/input/datasets/npy_fixture.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/datasets/npy_header.hpp"
#include "trainer/input/loader/sample_writer.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Npy : public testing::Test {
 protected:
  [[nodiscard]] Result<std::unique_ptr<Dataset>> open(Json parameters = Json::object()) const {
    for (const char* name : {"images", "labels"})
      if (!parameters.contains(name)) parameters[name] = path(std::string(name) + ".npy");
    return open_dataset("npy", parameters);
  }
  [[nodiscard]] std::string error_of(const Json& parameters = Json::object()) const {
    const auto dataset = open(parameters);
    EXPECT_FALSE(dataset);
    return dataset ? "" : dataset.error().message();
  }
  // The error of a data set whose images hold these bytes.
  [[nodiscard]] std::string error_with(const std::string& images) const {
    folder_.write("images.npy", images);
    return error_of();
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  // Two samples of 2 x 1 x 3 bytes and their labels.
  void SetUp() override {
    folder_.write("images.npy", npy_file("|u1", "(2, 2, 1, 3)", "abcdefABCDEF"));
    folder_.write("labels.npy", npy_file("<i8", "(2,)", bytes_of_numbers<std::int64_t>({3, 0})));
  }

  TemporaryFolder folder_;
};

std::string text_of_sample(const Dataset& dataset, std::int64_t index) {
  std::string text(static_cast<std::size_t>(dataset.type().shape().elements()), '?');
  const auto read =
      dataset.read(index, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  EXPECT_TRUE(read) << (read ? "" : read.error().message());
  return text;
}

TEST_F(Npy, GivesBytesAsTheyStand) {
  const auto dataset = open();
  ASSERT_TRUE(dataset) << dataset.error().message();
  EXPECT_EQ((*dataset)->size(), 2);
  EXPECT_EQ((*dataset)->type(), type_of(Element::uint8, {2, 1, 3}));
  EXPECT_EQ((*dataset)->classes(), 4);
  EXPECT_EQ((*dataset)->label(0), 3);
  EXPECT_EQ((*dataset)->label(1), 0);
  EXPECT_EQ(text_of_sample(**dataset, 0), "abcdef");
  EXPECT_EQ(text_of_sample(**dataset, 1), "ABCDEF");
  EXPECT_EQ((*dataset)->name(1), "sample 1 of " + path("images.npy"));
  EXPECT_EQ((*dataset)->stored().bytes, 12);
  EXPECT_EQ((*open({{"classes", 9}}))->classes(), 9);
}

TEST_F(Npy, PutsChannelsFirst) {
  const auto dataset = open({{"layout", "nhwc"}});
  ASSERT_TRUE(dataset) << dataset.error().message();
  EXPECT_EQ((*dataset)->type(), type_of(Element::uint8, {3, 2, 1}));
  EXPECT_EQ(text_of_sample(**dataset, 0), "adbecf");
  EXPECT_EQ(text_of_sample(**dataset, 1), "ADBECF");
}

// As NumPy has pictures, and as nobody means it.
TEST_F(Npy, DoubtsThatChannelsStandBeforeRowsAndColumns) {
  const auto doubt_of = [&](const std::string& shape, const Json& more) {
    folder_.write("images.npy", npy_file("|u1", shape, std::string(2 * 8 * 6 * 3, 'x')));
    const auto dataset = open(more);
    EXPECT_TRUE(dataset) << dataset.error().message();
    return dataset ? (*dataset)->doubt() : std::string();
  };
  EXPECT_THAT(doubt_of("(2, 8, 6, 3)", Json::object()),
              AllOf(HasSubstr("8 channels and 3 columns"), HasSubstr("(2, 8, 6, 3)"),
                    HasSubstr("layout: nhwc")));
  EXPECT_THAT(doubt_of("(2, 8, 18, 1)", Json::object()), HasSubstr("layout: nhwc"));
  EXPECT_EQ(doubt_of("(2, 8, 6, 3)", {{"layout", "nhwc"}}), "");
  EXPECT_EQ(doubt_of("(2, 3, 8, 6)", Json::object()), "");
  EXPECT_EQ(doubt_of("(2, 3, 16, 3)", Json::object()), "");
  EXPECT_EQ(doubt_of("(2, 16, 3, 3)", {{"layout", "nhwc"}}), "");
  EXPECT_EQ(doubt_of("(2, 144, 1)", Json::object()), "") << "without channels";
}

TEST_F(Npy, TakesFloatsOneChannelAndLabelsOfAnyInteger) {
  folder_.write("images.npy",
                npy_file("<f4", "(2, 2, 1, 2)", bytes_of_numbers<float>({1, 2, 3, 4, 5, 6, 7, 8})));
  folder_.write("labels.npy", npy_file("|u1", "(2, 1)", std::string("\x01\x00", 2)));
  const auto floats = open({{"layout", "nhwc"}});
  ASSERT_TRUE(floats) << floats.error().message();
  EXPECT_EQ((*floats)->type(), type_of(Element::float32, {2, 2, 1}));
  EXPECT_EQ((*floats)->label(0), 1);
  const Pipeline pipeline = pipeline_of((*floats)->type(), {});
  const SampleWriter writer(**floats, pipeline);
  auto scratch = writer.make_scratch();
  std::vector<float> batch(8);
  std::vector<std::int64_t> labels(2);
  const std::vector<std::uint32_t> indices = {1, 0};
  const BatchRing::Chunk chunk{.buffer = {batch.data(), labels.data()}, .indices = indices};
  ASSERT_TRUE(writer.write(chunk, PixelType::float32, scratch));
  EXPECT_THAT(batch, ElementsAre(5, 7, 6, 8, 1, 3, 2, 4));
  EXPECT_THAT(labels, ElementsAre(0, 1));

  folder_.write("images.npy", npy_file("|u1", "(2, 2, 3)", "abcdefABCDEF"));
  folder_.write("labels.npy", npy_file("<u4", "(2,)", bytes_of_numbers<std::uint32_t>({7, 5})));
  const auto grey = open();
  ASSERT_TRUE(grey) << grey.error().message();
  EXPECT_EQ((*grey)->type(), type_of(Element::uint8, {1, 2, 3}));
  EXPECT_EQ((*grey)->label(1), 5);
  EXPECT_EQ((*grey)->classes(), 8);
}

TEST_F(Npy, JoinsItsFilesInTheirOrder) {
  folder_.write("b1.npy", npy_file("|u1", "(1, 2, 1, 3)", "opqrst"));
  folder_.write("b0.npy", npy_file("|u1", "(0, 2, 1, 3)", ""));
  folder_.write("more.npy", npy_file("<i8", "(1,)", bytes_of_numbers<std::int64_t>({1})));
  const auto dataset = open({{"images", {path("images.npy"), path("b*.npy")}},
                             {"labels", {path("labels.npy"), path("more.npy")}}});
  ASSERT_TRUE(dataset) << dataset.error().message();
  EXPECT_EQ((*dataset)->size(), 3);
  EXPECT_EQ(text_of_sample(**dataset, 1), "ABCDEF");
  EXPECT_EQ(text_of_sample(**dataset, 2), "opqrst");
  EXPECT_EQ((*dataset)->label(2), 1);
  EXPECT_EQ((*dataset)->name(2), "sample 0 of " + path("b1.npy"));
}

TEST_F(Npy, ReadsWhatNumPyWrote) {
  const Json labels = fixture_path("labels.npy").string();
  const auto floats = open({{"images", fixture_path("floats.npy").string()}, {"labels", labels}});
  ASSERT_TRUE(floats) << floats.error().message();
  EXPECT_EQ((*floats)->type(), type_of(Element::float32, {2, 3, 2}));
  EXPECT_EQ((*floats)->label(0), 1);
  EXPECT_EQ((*floats)->label(1), 0);
  std::vector<float> sample(12);
  ASSERT_TRUE((*floats)->read(
      1, {reinterpret_cast<std::uint8_t*>(sample.data()), sample.size() * sizeof(float)}));
  EXPECT_THAT(sample, ElementsAre(12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23));

  const auto bytes = open(
      {{"images", fixture_path("bytes_v2.npy").string()}, {"labels", labels}, {"layout", "nhwc"}});
  ASSERT_TRUE(bytes) << bytes.error().message();
  EXPECT_EQ((*bytes)->type(), type_of(Element::uint8, {2, 2, 3}));
  std::vector<std::uint8_t> interleaved(12);
  ASSERT_TRUE((*bytes)->read(0, interleaved));
  EXPECT_THAT(interleaved, ElementsAre(0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11));

  EXPECT_THAT(error_of({{"images", fixture_path("fortran.npy").string()}, {"labels", labels}}),
              HasSubstr("Fortran order"));
}

// The forms that NumPy and older versions of it write.
TEST_F(Npy, ReadsHeadersAsNumPyDoes) {
  const auto header_of = [&](const std::string& file) {
    folder_.write("one.npy", file);
    const auto opened = open_data_file(path("one.npy"));
    return read_npy_header(*opened, path("one.npy"));
  };
  const auto shape_of = [&](const std::string& file) {
    const auto header = header_of(file);
    EXPECT_TRUE(header) << (header ? "" : header.error().message());
    return header ? header->shape_text() : "";
  };
  EXPECT_EQ(shape_of(npy_file("<f8", "()", std::string(8, 'x'))), "()");
  EXPECT_EQ(shape_of(npy_file("<f4", "(0, 7)", "")), "(0, 7)");
  EXPECT_EQ(
      shape_of(npy_file("{\"shape\":(3L,),\"fortran_order\":False,\"descr\":\"|i1\"}", "abc")),
      "(3,)");
  const std::string dictionary = "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 1)}\n";
  for (const char version : {'\x02', '\x03'}) {
    std::string file = "\x93NUMPY";
    file += version;
    file += '\0';
    file += static_cast<char>(dictionary.size());
    file += std::string(3, '\0') + dictionary + "abcd";
    const auto header = header_of(file);
    ASSERT_TRUE(header) << header.error().message();
    EXPECT_EQ(header->shape_text(), "(2, 1)");
    EXPECT_EQ(header->type_text(), "<u2");
    EXPECT_EQ(header->data_begin, 12 + static_cast<std::int64_t>(dictionary.size()));
  }
}

TEST_F(Npy, SaysWhatItDoesNotTakeAndWhatToSave) {
  tests::Cases cases(folder_.path());
  const auto add = [&](const std::string& given, const std::string& images) {
    cases.add(given, error_with(images));
  };
  add("text", "not an array at all");
  add("no byte", "");
  add("an archive", "PK\x03\x04 and so on, twelve");
  add("version 4", std::string("\x93NUMPY\x04\x00\x10\x00\x00\x00", 12));
  add("a header of 4 GiB", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12));
  add("a part of a header", std::string("\x93NUMPY\x01\x00\x76\x00{'descr'", 18));
  add("pickles", npy_file("|O", "(2,)", "pickle"));
  add("records",
      npy_file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", ""));
  add("big-endian numbers", npy_file(">f4", "(1, 1, 1)", "abcd"));
  add("Fortran order",
      npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1, 1), }", "abcd"));
  add("an end of line in the type", npy_file("<U\n5", "(1,)", ""));
  add("doubles", npy_file("<f8", "(1, 1, 1)", "abcdefgh"));
  add("two dimensions", npy_file("|u1", "(2, 6)", "abcdefABCDEF"));
  add("no rows", npy_file("|u1", "(2, 0, 5)", ""));
  add("no samples", npy_file("|u1", "(0, 4, 5)", ""));
  add("half of the numbers", npy_file("|u1", "(2, 2, 1, 3)", "abcdef"));
  add("a byte behind the numbers", npy_file("|u1", "(1, 2, 1, 3)", "abcdefX"));
  // More than there are numbers for; nothing is taken for it.
  add("more numbers than can be counted", npy_file("<f4", "(4294967296, 4294967296, 4)", ""));
  add("many samples without rows", npy_file("<f4", "(9223372036854775807, 0, 4)", ""));
  tests::expect_golden("trainer/input/datasets/golden/npy.txt", cases.text());
}

TEST_F(Npy, SaysThatAFileBecameShorterWhileItWasOpen) {
  const auto dataset = open();
  ASSERT_TRUE(dataset);
  std::filesystem::resize_file(path("images.npy"),
                               std::filesystem::file_size(path("images.npy")) - 1);
  std::vector<std::uint8_t> out(6);
  EXPECT_TRUE((*dataset)->read(0, out));
  const auto cut = (*dataset)->read(1, out);
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message(),
              AllOf(HasSubstr("/images.npy: ends after"), HasSubstr("do not change the data")));
}

TEST_F(Npy, RefusesHeadersThatAreNone) {
  for (const char* dictionary :
       {"", "{", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,) 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} more",
        "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'order': 'C'}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}"}) {
    EXPECT_THAT(error_with(npy_file(dictionary, "")),
                AllOf(HasSubstr("/images.npy: its header cannot be read"), HasSubstr("numpy.save")))
        << dictionary;
  }
}

TEST_F(Npy, RefusesFilesThatDoNotBelongTogether) {
  tests::Cases cases(folder_.path());
  folder_.write("other.npy", npy_file("|u1", "(1, 2, 2, 3)", "abcdefabcdef"));
  cases.add("images of two shapes",
            error_of({{"images", {path("images.npy"), path("other.npy")}}}));
  cases.add("4 labels", error_of({{"labels", {path("labels.npy"), path("labels.npy")}}}));
  cases.add("images as labels", error_of({{"labels", path("images.npy")}}));
  cases.add("classes: 3", error_of({{"classes", 3}}));
  cases.add("a file that is not there", error_of({{"labels", path("none.npy")}}));
  cases.add("layout: chw", error_of({{"layout", "chw"}}));
  const auto add = [&](const std::string& given, const std::string& labels) {
    folder_.write("labels.npy", labels);
    cases.add(given, error_of());
  };
  add("the label -5", npy_file("<i2", "(2,)", bytes_of_numbers<std::int16_t>({0, -5})));
  add("a label of 2^64 - 1", npy_file("<u8", "(2,)", std::string(16, '\xff')));
  add("floats as labels", npy_file("<f4", "(2,)", bytes_of_numbers<float>({0, 1})));
  tests::expect_golden("trainer/input/datasets/golden/npy_labels.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::input
