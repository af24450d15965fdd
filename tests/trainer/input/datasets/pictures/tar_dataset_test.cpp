// SPDX-License-Identifier: Apache-2.0
// Data sets of pictures and labels in tar files.
#include <gmock/gmock.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/input/datasets/pictures/tar_fixture.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/datasets/pictures/tar_index.hpp"

namespace autotuned::input {
namespace {

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
  // The error of one file with this content.
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
  tests::Cases cases(folder_.path());
  const auto add = [&](const std::string& given, const std::string& content) {
    cases.add(given, error_with(content + tar_end()));
  };
  add("a picture alone", tar_member("a.jpg", picture("420_16x32.jpg")));
  add("a label alone", tar_member("a.cls", "1") + sample("b", "1"));
  add("two pictures of one key", tar_member("a.png", "") + sample("a", "1"));
  add("a word as label", sample("a", "cat"));
  add("no byte as label", sample("a", ""));
  add("the label -1", sample("a", "-1"));
  add("a text alone", tar_member("a.txt", "1"));
  add("no JPEG in a.jpg", tar_member("a.jpg", "junk") + tar_member("a.cls", "1"));
  folder_.write("a.tar", sample("a", "3") + tar_end());
  cases.add("classes: 3", error_of({{"classes", 3}}));
  cases.add("no file", error_of({{"files", path("*.tgz")}}));
  tests::expect_golden("trainer/input/datasets/pictures/golden/tar.txt", cases.text());
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
  tests::Cases cases(folder_.path());
  const auto add = [&](const std::string& given, const std::string& content) {
    cases.add(given, index_error_of(content));
  };
  const std::string one = tar_member("a", "12");
  add("text", "text");
  add("2000 letters", std::string(2000, 'x'));
  add("gzip", "\x1f\x8b" + std::string(600, 'x'));
  add("without the end", one);
  add("cut within the padding of a member", one.substr(0, 700));
  add("cut within a member", one.substr(0, 513));
  add("cut within a header", one + one.substr(0, 300));
  std::string damaged = one + one + tar_end();
  damaged[1030] = 'x';
  add("a changed byte in a header", damaged);
  add("two archives in one file", one + tar_end() + one + tar_end());
  add("a member of 8 GB", one + tar_header("a", 8589934591) + tar_end());
  add("a member of type S", one + tar_header("a", 0, 'S') + tar_end());
  add("a long name", tar_header("a", 99'999, 'L') + std::string(100'352, 'x') + tar_end());
  add("a name without its member", tar_member("a", std::string(600, 'n'), 'L') + tar_end());
  add("a sparse file", tar_member("a", "22 GNU.sparse.major=1\n", 'x') + one + tar_end());
  tests::expect_golden("trainer/input/datasets/pictures/golden/tar_damage.txt", cases.text());
}

TEST_F(Tar, RefusesPaxRecordsThatAreNone) {
  const std::string one = tar_member("a", "12");
  for (const char* records :
       {"8 path=a\n", "99 path=a\n", "path=a\n", "7 path\n", "10 path=abc", "0 a=\n", "9 size=x\n",
        "11 size=-1\n", "18446744073709551616 a=b\n", "-9 path=a\n"}) {
    EXPECT_THAT(index_error_of(tar_member("a", records, 'x') + one + tar_end()),
                HasSubstr("byte 0: the pax records are damaged"))
        << records;
  }
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
