// SPDX-License-Identifier: Apache-2.0
// Data sets of pictures and labels in tar files.
#include <gmock/gmock.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/trainer/input/datasets/tar_fixture.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/datasets/tar_index.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Tar : public testing::Test {
 protected:
  [[nodiscard]] Result<std::unique_ptr<Dataset>> open(Json parameters = Json::object()) const {
    if (!parameters.contains("files")) parameters["files"] = path("*.tar");
    return open_dataset("tar", parameters);
  }
  [[nodiscard]] std::string error_of(const Json& parameters = Json::object()) const {
    const auto dataset = open(parameters);
    EXPECT_FALSE(dataset);
    return dataset ? "" : dataset.error().message();
  }
  // Of one file with this content.
  [[nodiscard]] std::string error_with(const std::string& content) const {
    folder_.write("a.tar", content);
    return error_of();
  }
  [[nodiscard]] Result<std::vector<TarMember>> index_of(const std::string& content) const {
    folder_.write("index.tar", content);
    const auto file = open_data_file(path("index.tar"));
    return read_tar_index(*file, path("index.tar"));
  }
  // "name:bytes" of every member.
  [[nodiscard]] std::vector<std::string> members_of(const std::string& content) const {
    const auto members = index_of(content);
    EXPECT_TRUE(members) << (members ? "" : members.error().message());
    std::vector<std::string> texts;
    if (!members) return texts;
    for (const TarMember& member : *members) {
      texts.push_back(member.name + ":" +
                      content.substr(static_cast<std::size_t>(member.begin),
                                     static_cast<std::size_t>(member.bytes)));
    }
    return texts;
  }
  [[nodiscard]] std::string index_error_of(const std::string& content) const {
    const auto members = index_of(content);
    EXPECT_FALSE(members);
    return members ? "" : members.error().message();
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  static std::string picture(const std::string& name) {
    const auto bytes = bytes_of_file(fixture_path(name));
    return {bytes.begin(), bytes.end()};
  }
  static std::string sample(const std::string& key, const std::string& label,
                            const std::string& file = "420_16x32.jpg") {
    return tar_member(key + file.substr(file.rfind('.')), picture(file)) +
           tar_member(key + ".cls", label);
  }

  TemporaryFolder folder_;
};

TEST_F(Tar, GivesPicturesWithTheirLabels) {
  folder_.write("1.tar", sample("c", "0") + tar_end());
  folder_.write("0.tar", tar_member("README", "hello") + tar_member("x/", "", '5') +
                             sample("x/a", " 2\n") + tar_member("x/a.json", "{}") +
                             tar_member("x/b.CLS", "1") +
                             tar_member("x/b.PNG", picture("png_rgb.png")) + tar_end());
  const auto opened = open();
  ASSERT_TRUE(opened) << opened.error().message();
  const Dataset& dataset = **opened;
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_EQ(dataset.classes(), 3);
  EXPECT_EQ(dataset.type().element, Element::encoded);
  EXPECT_EQ(dataset.type().height, (Extent{16, 19}));
  EXPECT_EQ(dataset.label(0), 2);
  EXPECT_EQ(dataset.label(1), 1);
  EXPECT_EQ(dataset.label(2), 0);
  EXPECT_EQ(dataset.name(1), path("0.tar") + ", x/b.PNG");
  std::vector<std::uint8_t> bytes;
  for (const auto& [index, file] :
       {std::pair{0, "420_16x32.jpg"}, {1, "png_rgb.png"}, {2, "420_16x32.jpg"}}) {
    ASSERT_TRUE(dataset.read_encoded(index, bytes));
    EXPECT_EQ(bytes, bytes_of_file(fixture_path(file))) << index;
  }
  EXPECT_EQ((*open({{"repeat_to", 7}}))->size(), 7);
  EXPECT_EQ((*open({{"repeat_to", 7}}))->label(4), 1);
  EXPECT_EQ((*open({{"classes", 5}}))->classes(), 5);
  EXPECT_EQ((*open({{"files", {path("1.tar"), path("0.tar")}}}))->label(0), 0);
}

// A key ends at the first point of a file's name.
TEST_F(Tar, KnowsWhatBelongsTogether) {
  folder_.write("a.tar", tar_member("./v1.2/a.seg.png", "no picture of ours") +
                             sample("./v1.2/a", "4") + tar_member("./._a.jpg", "of the system") +
                             tar_end());
  const auto dataset = open();
  ASSERT_TRUE(dataset) << dataset.error().message();
  EXPECT_EQ((*dataset)->size(), 1);
  EXPECT_EQ((*dataset)->label(0), 4);
}

TEST_F(Tar, NamesWhatDoesNotBelongTogether) {
  const std::string jpeg = picture("420_16x32.jpg");
  EXPECT_THAT(error_with(tar_member("a.jpg", jpeg) + tar_end()),
              AllOf(HasSubstr("/a.tar, a: has a picture, but no label"), HasSubstr("(.cls)")));
  EXPECT_THAT(error_with(tar_member("a.cls", "1") + sample("b", "1") + tar_end()),
              HasSubstr("/a.tar, a: has a label, but no picture"));
  EXPECT_THAT(error_with(tar_member("a.png", "") + sample("a", "1") + tar_end()),
              HasSubstr("/a.tar, a: has two files `.jpg`"));
  EXPECT_THAT(error_with(sample("a", "cat") + tar_end()),
              AllOf(HasSubstr("/a.tar, a.cls: holds `cat`, which is not a label"),
                    HasSubstr("integer of at least 0")));
  EXPECT_THAT(error_with(sample("a", "") + tar_end()), HasSubstr("not a label"));
  EXPECT_THAT(error_with(sample("a", "-1") + tar_end()),
              HasSubstr("has the label -1, not one from 0 to 65535"));
  EXPECT_THAT(error_with(tar_member("a.txt", "1") + tar_end()),
              AllOf(HasSubstr("holds no samples"), HasSubstr("0001.jpg")));
  EXPECT_THAT(error_with(tar_member("a.jpg", "junk") + tar_member("a.cls", "1") + tar_end()),
              HasSubstr("/a.tar, a.jpg: is not a JPEG file"));
  folder_.write("a.tar", sample("a", "3") + tar_end());
  EXPECT_THAT(error_of({{"classes", 3}}), HasSubstr("the label 3, not one from 0 to 2"));
  EXPECT_THAT(error_of({{"files", path("*.tgz")}}), HasSubstr("no file matches"));
}

// Written by Python's tarfile.
TEST_F(Tar, ReadsEveryFormatOfLongNames) {
  for (const char* format : {"ustar", "gnu", "pax"}) {
    SCOPED_TRACE(format);
    const auto dataset =
        open({{"files", fixture_path("shard_" + std::string(format) + ".tar").string()}});
    ASSERT_TRUE(dataset) << dataset.error().message();
    EXPECT_EQ((*dataset)->size(), 3);
    const bool is_ustar = format == std::string("ustar");
    const std::string folder(is_ustar ? 120 : 300, 'd');
    EXPECT_THAT((*dataset)->name(1), testing::EndsWith(is_ustar ? folder + "/b.jpg" : "..."));
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ((*dataset)->label(i), i);
      ASSERT_TRUE((*dataset)->read_encoded(i, bytes));
      EXPECT_EQ(bytes, bytes_of_file(fixture_path("grey_1x1.jpg")));
    }
  }
}

TEST_F(Tar, TakesNamesAndSizesFromWhereverTheyStand) {
  EXPECT_THAT(members_of(tar_member("a", "1") + tar_member("b", "") + tar_end()),
              ElementsAre("a:1", "b:"));
  const std::string with_prefix =
      tar_header("b", 2, '0', "folder/in") + "22" + std::string(510, '\0');
  EXPECT_THAT(members_of(with_prefix + tar_end()), ElementsAre("folder/in/b:22"));
  // GNU: a name of its own, for the next member only.
  const std::string long_name(600, 'n');
  EXPECT_THAT(members_of(tar_member("././@LongLink", long_name + '\0', 'L') +
                         tar_member("short", "1") + tar_member("c", "2") + tar_end()),
              ElementsAre(long_name + ":1", "c:2"));
  // pax: the records win over the header.
  EXPECT_THAT(members_of(tar_member("x", "13 path=p/qq\n9 size=3\n13 mtime=1.5\n", 'x') +
                         tar_header("short", 0) + "333" + std::string(509, '\0') +
                         tar_member("c", "2") + tar_end()),
              ElementsAre("p/qq:333", "c:2"));
  EXPECT_THAT(members_of(tar_member("g", "11 comment=\n", 'g') + tar_member("a", "1") + tar_end()),
              ElementsAre("a:1"));
  // GNU: a size of base 256.
  std::string large = tar_header("a", 3);
  large.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x03", 12));
  unsigned sum = 0;
  large.replace(148, 8, "        ");
  for (const char letter : large)
    sum += static_cast<unsigned char>(letter);
  char octal[16];
  std::snprintf(octal, sizeof octal, "%06o", sum);
  large.replace(148, 7, octal, 7);
  EXPECT_THAT(members_of(large + "333" + std::string(509, '\0') + tar_end()), ElementsAre("a:333"));
  // Links and folders are no samples; a link's size says nothing.
  EXPECT_THAT(
      members_of(tar_header("l", 700, '1') + tar_header("s", 0, '2') + tar_header("d/", 0, '5') +
                 tar_header("e/", 0, '0') + tar_member("a", "1", '\0') + tar_end()),
      ElementsAre("a:1"));
  EXPECT_THAT(members_of(tar_end()), testing::IsEmpty());
}

TEST_F(Tar, SaysAtWhichByteAFileIsDamaged) {
  const std::string one = tar_member("a", "12");
  EXPECT_THAT(index_error_of("text"), HasSubstr("/index.tar, byte 0: is not a tar file"));
  EXPECT_THAT(index_error_of(std::string(2000, 'x')), HasSubstr("byte 0: is not a tar file"));
  EXPECT_THAT(index_error_of("\x1f\x8b" + std::string(600, 'x')),
              AllOf(HasSubstr("is compressed"), HasSubstr("unpack it")));
  EXPECT_THAT(index_error_of(one), HasSubstr("byte 1024: the file ends without an end marker"));
  EXPECT_THAT(index_error_of(one.substr(0, 700)), HasSubstr("byte 1024: the file ends without"));
  EXPECT_THAT(index_error_of(one.substr(0, 513)),
              HasSubstr("byte 0: a member claims 2 bytes, but the file has 1"));
  EXPECT_THAT(index_error_of(one + one.substr(0, 300)),
              HasSubstr("byte 1024: the file ends within a header"));
  std::string damaged = one + one + tar_end();
  damaged[1030] = 'x';
  EXPECT_THAT(index_error_of(damaged), HasSubstr("byte 1024: the header of a member is damaged"));
  EXPECT_THAT(index_error_of(one + tar_end() + one + tar_end()),
              AllOf(HasSubstr("data follows the end marker"), HasSubstr("one by one")));
  EXPECT_THAT(index_error_of(one + tar_header("a", 8589934591) + tar_end()),
              HasSubstr("byte 1024: a member claims 8,589,934,591 bytes, but the file has"));
  EXPECT_THAT(index_error_of(one + tar_header("a", 0, 'S') + tar_end()),
              HasSubstr("byte 1024: holds a member of the type `S`"));
  EXPECT_THAT(index_error_of(tar_header("a", 99'999, 'L') + std::string(100'352, 'x') + tar_end()),
              HasSubstr("a name takes 99,999 bytes"));
  EXPECT_THAT(index_error_of(tar_member("a", std::string(600, 'n'), 'L') + tar_end()),
              HasSubstr("the file ends before the member of a long name"));
  for (const char* records :
       {"8 path=a\n", "99 path=a\n", "path=a\n", "7 path\n", "10 path=abc", "0 a=\n", "9 size=x\n",
        "11 size=-1\n", "18446744073709551616 a=b\n", "-9 path=a\n"}) {
    EXPECT_THAT(index_error_of(tar_member("a", records, 'x') + one + tar_end()),
                HasSubstr("byte 0: the pax records are damaged"))
        << records;
  }
  EXPECT_THAT(index_error_of(tar_member("a", "22 GNU.sparse.major=1\n", 'x') + one + tar_end()),
              HasSubstr("a sparse file"));
}

// Whatever byte is wrong: a message, or members that lie in the file.
TEST_F(Tar, SurvivesEveryDamagedByte) {
  const std::string whole = tar_member("x", "13 path=p/qq\n9 size=3\n", 'x') +
                            tar_member("a", "abc") + tar_member("b", std::string(600, 'b')) +
                            tar_end();
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += at < 160 ? 1 : 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    const auto members = index_of(damaged);
    if (!members) {
      ++refused;
      continue;
    }
    for (const TarMember& member : *members) {
      EXPECT_GE(member.begin, 512);
      EXPECT_LE(member.begin + member.bytes, static_cast<std::int64_t>(whole.size()));
    }
  }
  EXPECT_GT(refused, 150);
}

}  // namespace
}  // namespace autotuned::input
