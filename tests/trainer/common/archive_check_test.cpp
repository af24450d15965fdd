// SPDX-License-Identifier: Apache-2.0
// Files of tensors in which something has changed since they were written.
#include "trainer/common/archive_check.hpp"

#include <ATen/Functions.h>
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "tests/places.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/state/checkpoint.hpp"

namespace autotuned::trainer {
namespace {

using namespace std::string_view_literals;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

Checkpoint small_checkpoint() {
  Checkpoint checkpoint;
  checkpoint.parameters = {{"weight", at::arange(12).reshape({3, 4})}, {"bias", at::ones({3})}};
  checkpoint.optimizer = {{"step", at::ones({1})}};
  return checkpoint;
}

std::string bytes_in(const std::filesystem::path& file) {
  return value_of(read_file(file, std::size_t{1} << 20U));
}

std::string refusal_of(std::string_view archive) {
  const auto checked = check_archive(archive, "FILE", "REMEDY");
  if (checked) return {};
  EXPECT_EQ(checked.error().kind, ErrorKind::corrupt);
  return checked.error().message();
}

std::string little(std::uint64_t number, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i)
    text += static_cast<char>(number >> (8U * i) & 0xFFU);
  return text;
}

// What the archive of one record says of itself, in the form for more than 4 GiB.
struct Long {
  std::uint64_t bytes = 5;
  std::uint64_t offset = 0;
  std::uint64_t entries = 1;
  std::uint64_t directory_bytes = 46 + 7 + 28;
  std::uint64_t directory_offset = 30 + 7 + 5;
  std::uint64_t end_offset = 30 + 7 + 5 + 46 + 7 + 28;
  std::uint64_t extra_bytes = 24;
};

std::string long_archive(const Long& said) {
  const std::string content = "12345";
  const auto checksum = ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), 5);
  const std::string name = "a/data0";
  std::string archive =
      "PK\x03\x04" + std::string(22, '\0') + little(name.size(), 2) + little(0, 2) + name + content;
  archive += "PK\x01\x02" + std::string(12, '\0') + little(checksum, 4) + std::string(8, '\xFF') +
             little(name.size(), 2) + little(28, 2) + std::string(10, '\0') +
             std::string(4, '\xFF') + name;
  archive += little(1, 2) + little(said.extra_bytes, 2) + little(said.bytes, 8) +
             little(said.bytes, 8) + little(said.offset, 8);
  archive += "PK\x06\x06" + std::string(28, '\0') + little(said.entries, 8) +
             little(said.directory_bytes, 8) + little(said.directory_offset, 8);
  archive += "PK\x06\x07" + little(0, 4) + little(said.end_offset, 8) + little(1, 4);
  archive += "PK\x05\x06" + std::string(4, '\0') + std::string(12, '\xFF') + little(0, 2);
  return archive;
}

TEST(ArchiveCheck, NamesTheRecordThatHasChanged) {
  const Folder folder;
  value_of(write_checkpoint(folder / "whole.pt", small_checkpoint(), "a note"));
  const std::string whole = bytes_in(folder / "whole.pt");
  EXPECT_TRUE(read_checkpoint(folder / "whole.pt"));
  caffe2::serialize::PyTorchStreamReader reader((folder / "whole.pt").string());
  const std::vector<std::string> records = reader.getAllRecords();
  ASSERT_GE(records.size(), 6U) << "five tensors and their names";
  for (const std::string& name : records) {
    std::string damaged = whole;
    damaged[reader.getRecordOffset(name)] ^= 1;
    ASSERT_TRUE(write_file_atomically(folder / "damaged.pt", damaged));
    const auto read = read_checkpoint(folder / "damaged.pt");
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().kind, ErrorKind::corrupt);
    EXPECT_EQ(read.error().message(), (folder / "damaged.pt").string() +
                                          ": the file is damaged: record " + name +
                                          " has another checksum; delete the file");
  }
}

TEST(ArchiveCheck, IsMadeOfWeights) {
  const Folder folder;
  value_of(write_model(folder / "model.pt", small_checkpoint()));
  EXPECT_EQ(value_of(read_model(folder / "model.pt")).size(), 2U);
  std::string damaged = bytes_in(folder / "model.pt");
  caffe2::serialize::PyTorchStreamReader reader((folder / "model.pt").string());
  damaged[reader.getRecordOffset("data/0")] ^= 1;
  ASSERT_TRUE(write_file_atomically(folder / "damaged.pt", damaged));
  const auto read = read_model(folder / "damaged.pt");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(read.error().message(),
              AllOf(HasSubstr("record data/0 has another checksum"), HasSubstr("copy the file")));
}

TEST(ArchiveCheck, AcceptsWhatIsWholeOrHasNoChecksums) {
  std::string archive =
      bytes_in(tests::source_folder() / "tests/trainer/step/data/mlp_state_dict.pt");
  EXPECT_EQ(refusal_of(archive), "");
  EXPECT_EQ(refusal_of(""), "");
  EXPECT_EQ(refusal_of("\x80\x02}q"), "") << "as PyTorch wrote before 1.6";
  EXPECT_EQ(refusal_of("text without end"), "");
  // As Python writes after set_crc32_options(False).
  for (std::size_t at = archive.find("PK\x01\x02"sv); at != std::string::npos;
       at = archive.find("PK\x01\x02"sv, at + 1))
    archive.replace(at + 16, 4, 4, '\0');
  EXPECT_EQ(refusal_of(archive), "");
}

TEST(ArchiveCheck, ReadsLongArchives) {
  EXPECT_EQ(refusal_of(long_archive({})), "");
  std::string damaged = long_archive({});
  damaged[30 + 7] ^= 1;
  EXPECT_EQ(refusal_of(damaged),
            "FILE: the file is damaged: record data0 has another checksum; REMEDY");
}

TEST(ArchiveCheck, RefusesImpossibleSizes) {
  constexpr const char* kNotThere = "record data0 is not where the directory says";
  constexpr const char* kUnreadable = "the directory of its records cannot be read";
  constexpr const char* kElsewhere = "the directory of its records is not where its end says";
  const auto refuse = [](const char* why, const auto&... archives) {
    for (const std::string& refusal : {refusal_of(archives)...})
      EXPECT_THAT(refusal, HasSubstr(why));
  };
  refuse(kNotThere, long_archive({.bytes = kMax}), long_archive({.bytes = kMax - 36}),
         long_archive({.offset = kMax}), long_archive({.offset = kMax - 29}));
  refuse(kUnreadable, long_archive({.entries = kMax}), long_archive({.entries = 0}),
         long_archive({.extra_bytes = 16}), long_archive({.extra_bytes = 0xFFFF}));
  refuse(kElsewhere, long_archive({.directory_bytes = kMax}),
         long_archive({.directory_offset = kMax}), long_archive({.end_offset = kMax}));
}

// The same bytes under many names would take hours to sum.
TEST(ArchiveCheck, RefusesRecordsThatOverlap) {
  const std::string content(100, 'x');
  const auto checksum = ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), 100);
  std::string archive = "PK\x03\x04" + std::string(26, '\0') + content;
  const std::size_t directory = archive.size();
  const std::string entry = "PK\x01\x02" + std::string(12, '\0') + little(checksum, 4) +
                            little(100, 4) + little(100, 4) + std::string(18, '\0');
  for (int i = 0; i < 10; ++i)
    archive += entry;
  const std::string end = "PK\x05\x06" + std::string(4, '\0') + little(10, 2) + little(10, 2) +
                          little(10 * entry.size(), 4) + little(directory, 4) + little(0, 2);
  EXPECT_THAT(refusal_of(archive + end), HasSubstr("overlaps others"));
}

TEST(ArchiveCheck, RefusesWhatIsCutOff) {
  const Folder folder;
  value_of(write_model(folder / "model.pt", small_checkpoint()));
  const std::string whole = bytes_in(folder / "model.pt");
  for (std::size_t length = 2; length < whole.size(); ++length)
    ASSERT_THAT(refusal_of(std::string_view(whole).substr(0, length)),
                HasSubstr("its end is missing"))
        << length;
  // And a byte anywhere never crashes it.
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0x01, 0x80}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      (void)check_archive(damaged, "FILE", "REMEDY");
    }
  }
}

}  // namespace
}  // namespace autotuned::trainer
