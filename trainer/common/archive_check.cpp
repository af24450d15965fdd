// SPDX-License-Identifier: Apache-2.0
#include "trainer/common/archive_check.hpp"

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace autotuned::trainer {
namespace {

using namespace std::string_view_literals;

// The fixed-size parts of zip's structures; its specification (APPNOTE) has the offsets of all fields.
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kMaxCommentBytes = 65'535;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kLongEndBytes = 56;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalHeaderBytes = 30;
constexpr std::uint64_t kInExtraField = 0xFFFF'FFFF;  // zip64

// REQUIRES: `bytes` has them.
std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t number = 0;
  for (std::size_t i = count; i-- > 0;)
    number = number << 8U | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

struct RecordDirectory {
  std::uint64_t entries = 0;
  std::string_view bytes;
};

struct ArchiveRecord {
  std::string name;
  bool is_compressed = false;
  std::uint32_t checksum = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // of its local header
};

// Where LibTorch looks for it, too.
std::optional<std::size_t> find_end(std::string_view archive) {
  if (archive.size() < kEndBytes) return std::nullopt;
  const std::size_t end = archive.rfind("PK\x05\x06"sv, archive.size() - kEndBytes);
  if (end == std::string_view::npos) return std::nullopt;
  if (archive.size() - end > kEndBytes + kMaxCommentBytes) return std::nullopt;
  return end;
}

std::optional<RecordDirectory> directory_at(std::string_view archive, std::size_t end) {
  RecordDirectory directory{.entries = number_at(archive, end + 10, 2), .bytes = {}};
  std::uint64_t bytes = number_at(archive, end + 12, 4);
  std::uint64_t offset = number_at(archive, end + 16, 4);
  if (end >= kLocatorBytes && archive.substr(end - kLocatorBytes, 4) == "PK\x06\x07"sv) {
    const std::uint64_t at = number_at(archive, end - kLocatorBytes + 8, 8);
    if (archive.size() < kLongEndBytes || at > archive.size() - kLongEndBytes) return std::nullopt;
    const std::string_view long_end = archive.substr(at, kLongEndBytes);
    if (!long_end.starts_with("PK\x06\x06"sv)) return std::nullopt;
    directory.entries = number_at(long_end, 32, 8);
    bytes = number_at(long_end, 40, 8);
    offset = number_at(long_end, 48, 8);
  }
  if (offset > end || bytes > end - offset) return std::nullopt;
  directory.bytes = archive.substr(offset, bytes);
  return directory;
}

// Numbers that do not fit into an entry, in its extra field. False if they are not there.
bool take_long_numbers(std::string_view extra, ArchiveRecord& record) {
  std::string_view numbers;
  while (extra.size() >= 4) {
    const std::uint64_t bytes = number_at(extra, 2, 2);
    if (bytes > extra.size() - 4) return false;
    if (number_at(extra, 0, 2) == 1) numbers = extra.substr(4, bytes);
    extra.remove_prefix(4 + bytes);
  }
  for (std::uint64_t* const number : {&record.bytes, &record.stored_bytes, &record.offset}) {
    if (*number != kInExtraField) continue;
    if (numbers.size() < 8) return false;
    *number = number_at(numbers, 0, 8);
    numbers.remove_prefix(8);
  }
  return true;
}

// "data/2" of "archive/data/2"; it may be damaged.
std::string name_of_record(std::string_view name) {
  const std::size_t folder = name.find('/');
  if (folder != std::string_view::npos) name.remove_prefix(folder + 1);
  std::string text(name);
  for (char& one : text)
    if (one < ' ' || one > '~') one = '?';
  return text;
}

// Removes the first entry of `directory`; nothing if there is none.
std::optional<ArchiveRecord> take_entry(std::string_view& directory) {
  if (directory.size() < kEntryBytes || !directory.starts_with("PK\x01\x02"sv)) return std::nullopt;
  const std::size_t name = number_at(directory, 28, 2);
  const std::size_t extra = number_at(directory, 30, 2);
  const std::size_t whole = kEntryBytes + name + extra + number_at(directory, 32, 2);
  if (directory.size() < whole) return std::nullopt;
  ArchiveRecord record{.name = name_of_record(directory.substr(kEntryBytes, name)),
                       .is_compressed = number_at(directory, 10, 2) != 0,
                       .checksum = static_cast<std::uint32_t>(number_at(directory, 16, 4)),
                       .stored_bytes = number_at(directory, 20, 4),
                       .bytes = number_at(directory, 24, 4),
                       .offset = number_at(directory, 42, 4)};
  if (!take_long_numbers(directory.substr(kEntryBytes + name, extra), record)) return std::nullopt;
  directory.remove_prefix(whole);
  return record;
}

std::optional<std::string_view> content_of(const ArchiveRecord& record, std::string_view archive) {
  if (archive.size() < kLocalHeaderBytes || record.offset > archive.size() - kLocalHeaderBytes)
    return std::nullopt;
  archive.remove_prefix(record.offset);
  if (!archive.starts_with("PK\x03\x04"sv)) return std::nullopt;
  const std::size_t header =
      kLocalHeaderBytes + number_at(archive, 26, 2) + number_at(archive, 28, 2);
  if (header > archive.size() || record.stored_bytes > archive.size() - header) return std::nullopt;
  if (!record.is_compressed && record.stored_bytes != record.bytes) return std::nullopt;
  return archive.substr(header, record.stored_bytes);
}

}  // namespace

Result<void> check_archive(std::string_view archive, const std::filesystem::path& file,
                           const std::string& remedy) {
  const auto damaged = [&](const std::string& what) {
    return fail(ErrorKind::corrupt, "the file is damaged: " + what, file.string(), remedy);
  };
  const auto end = find_end(archive);
  if (!end) {
    if (!archive.starts_with("PK"sv)) return {};
    return damaged("its end is missing");
  }
  auto directory = directory_at(archive, *end);
  if (!directory) return damaged("the directory of its records is not where its end says");
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < directory->entries; ++i) {
    const auto record = take_entry(directory->bytes);
    if (!record) return damaged("the directory of its records cannot be read");
    const auto content = content_of(*record, archive);
    if (!content) return damaged("record " + record->name + " is not where the directory says");
    total += content->size();
    // The same bytes again and again would take forever.
    if (total > archive.size()) return damaged("record " + record->name + " overlaps others");
    if (record->is_compressed || record->checksum == 0) continue;
    const auto checksum = static_cast<std::uint32_t>(
        ::crc32_z(0, reinterpret_cast<const Bytef*>(content->data()), content->size()));
    if (checksum != record->checksum) {
      return damaged("record " + record->name + " has another checksum");
    }
  }
  if (!directory->bytes.empty()) return damaged("the directory of its records cannot be read");
  return {};
}

bool is_no_archive(std::string_view error) {
  return error.find("PytorchStreamReader failed reading zip archive") != std::string_view::npos;
}

}  // namespace autotuned::trainer
