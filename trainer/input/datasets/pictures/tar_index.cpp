// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/pictures/tar_index.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace autotuned::input {
namespace {

constexpr std::int64_t kBlockBytes = 512;
constexpr std::int64_t kMaxNameBytes = std::int64_t{64} << 10U;
constexpr std::int64_t kMaxRecordBytes = std::int64_t{1} << 20U;
constexpr const char* kFetchAgain = "copy or download it again";

using Block = std::array<std::uint8_t, kBlockBytes>;

// The place of a field in a header.
struct HeaderField {
  std::size_t begin;
  std::size_t bytes;
};
constexpr HeaderField kName{0, 100};
constexpr HeaderField kSize{124, 12};
constexpr HeaderField kChecksum{148, 8};
constexpr std::size_t kType = 156;
constexpr HeaderField kTarMagic{257, 8};
constexpr HeaderField kPrefix{345, 155};

std::span<const std::uint8_t> bytes_of(const Block& header, HeaderField part) {
  return std::span(header).subspan(part.begin, part.bytes);
}

std::string text_of(const Block& header, HeaderField part) {
  const auto bytes = bytes_of(header, part);
  return {bytes.begin(), std::ranges::find(bytes, 0)};
}

// Octal digits among spaces and zeros, or, where GNU tar needs more, a number of base 256.
std::optional<std::int64_t> number_in(std::span<const std::uint8_t> field) {
  constexpr std::uint8_t kBase256 = 0x80;
  std::int64_t number = 0;
  if (field[0] == kBase256) {
    for (const std::uint8_t byte : field.subspan(1)) {
      if (number > std::numeric_limits<std::int64_t>::max() >> 8U) return std::nullopt;
      number = (number << 8U) | byte;
    }
    return number;
  }
  std::size_t at = 0;
  while (at < field.size() && field[at] == ' ')
    ++at;
  for (; at < field.size() && field[at] >= '0' && field[at] <= '7'; ++at)
    number = number * 8 + (field[at] - '0');  // of 12 digits at most
  for (; at < field.size(); ++at)
    if (field[at] != ' ' && field[at] != '\0') return std::nullopt;
  return number;
}

// The checksum is the sum of all bytes, with those of the sum itself as spaces. Old programs added signed bytes.
bool has_right_checksum(const Block& header) {
  const auto sum = number_in(bytes_of(header, kChecksum));
  std::int64_t unsigned_sum = 0;
  std::int64_t signed_sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const bool is_of_sum = i >= kChecksum.begin && i < kChecksum.begin + kChecksum.bytes;
    const std::uint8_t byte = is_of_sum ? std::uint8_t{' '} : header[i];
    unsigned_sum += byte;
    signed_sum += static_cast<std::int8_t>(byte);
  }
  return sum && (*sum == unsigned_sum || *sum == signed_sum);
}

bool is_zero(std::span<const std::uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

std::string name_of(const Block& header) {
  // GNU tar keeps other things where ustar has the folders.
  const bool is_ustar = text_of(header, kTarMagic) == "ustar";
  const std::string prefix = is_ustar ? text_of(header, kPrefix) : "";
  return prefix.empty() ? text_of(header, kName) : prefix + "/" + text_of(header, kName);
}

// Properties of the next member that a separate header gives.
struct Ahead {
  std::optional<std::string> name;
  std::optional<std::int64_t> bytes;

  [[nodiscard]] bool is_empty() const { return !name && !bytes; }
};

// Reads records "LENGTH KEY=VALUE\n"; the length is that of the whole record. False: they do not have this form.
bool take_records(std::string_view text, Ahead& ahead, bool& is_sparse) {
  while (!text.empty()) {
    std::size_t length = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<std::size_t>(parsed.ptr - text.data());
    if (parsed.ec != std::errc() || length > text.size() || length < digits + 3) return false;
    std::string_view record = text.substr(0, length);
    text.remove_prefix(length);
    if (record[digits] != ' ' || record.back() != '\n') return false;
    record = record.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") ahead.name = std::string(value);
    if (key == "size") {
      std::int64_t size = 0;
      const auto number = std::from_chars(value.data(), value.data() + value.size(), size);
      if (number.ec != std::errc() || number.ptr != value.data() + value.size() || size < 0) {
        return false;
      }
      ahead.bytes = size;
    }
    is_sparse = is_sparse || key.starts_with("GNU.sparse.");
  }
  return true;
}

class Reader {
 public:
  Reader(const DataFile& file, const std::string& path) : file_(file), path_(path) {}

  Result<std::vector<TarMember>> read() {
    std::vector<TarMember> members;
    while (true) {
      auto is_more = read_header();
      if (!is_more) return tl::unexpected(is_more.error());
      if (!*is_more) return members;
      auto member = take_member();
      if (!member) return tl::unexpected(member.error());
      if (*member) members.push_back(std::move(**member));
    }
  }

 private:
  tl::unexpected<Error> refuse(std::string what, std::string remedy = kFetchAgain,
                               ErrorKind kind = ErrorKind::corrupt) const {
    return fail(kind, std::move(what), path_ + ", byte " + std::to_string(at_), std::move(remedy));
  }

  // The header at at_; false at the mark of the end.
  Result<bool> read_header() {
    if (file_.bytes - at_ < kBlockBytes) {
      if (at_ == 0) return refuse("is not a tar file", "give tar files");
      return refuse(at_ < file_.bytes ? "the file ends within a header"
                                      : "the file ends without an end marker");
    }
    if (auto read = read_all_at(file_, at_, header_, path_); !read) {
      return tl::unexpected(read.error());
    }
    if (is_zero(header_)) {
      auto ended = check_end();
      if (!ended) return tl::unexpected(ended.error());
      return false;
    }
    if (has_right_checksum(header_)) return true;
    if (at_ > 0) return refuse("the header of a member is damaged");
    const bool is_gzip = header_[0] == 0x1f && header_[1] == 0x8b;
    return is_gzip
               ? refuse("is compressed, but samples are read at any position in it", "unpack it")
               : refuse("is not a tar file", "give tar files");
  }

  // Whether only zeros follow until the end of the file. Otherwise tar files were concatenated, and the later ones
  // would be missed.
  Result<void> check_end() {
    if (!ahead_.is_empty()) return refuse("the file ends before the member of a long name");
    std::vector<std::uint8_t> bytes(std::size_t{64} << 10U);
    while (true) {
      const auto count = read_at(file_, at_, bytes, path_);
      if (!count) return tl::unexpected(count.error());
      if (*count == 0) return {};
      if (!is_zero(std::span(bytes).first(*count))) {
        return refuse("data follows the end marker", "give tar files one by one");
      }
      at_ += static_cast<std::int64_t>(*count);
    }
  }

  // A regular file, or nothing when the header is about something else. Moves on to the next header.
  Result<std::optional<TarMember>> take_member() {
    const auto size = number_in(bytes_of(header_, kSize));
    if (!size) return refuse("the size of a member is not a number");
    const char type = static_cast<char>(header_[kType]);
    switch (type) {
      case 'L':
      case 'x':
        if (auto taken = take_ahead(type, *size); !taken) return tl::unexpected(taken.error());
        return std::nullopt;
      case 'K':  // the long name of a link
      case 'g':  // records about all members: comments and owners
        if (auto checked = check_room(*size); !checked) return tl::unexpected(checked.error());
        move_on(*size);
        return std::nullopt;
      case '1':  // links, devices and folders, which have no bytes whatever their size
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case 'V':  // the name of the archive
        ahead_ = {};
        at_ += kBlockBytes;
        return std::nullopt;
      case '\0':
      case '0':
      case '7':
        break;
      default:
        return refuse("holds a member of the type `" + shown_text({&type, 1}) + "`",
                      "pack plain files", ErrorKind::unsupported);
    }
    TarMember member{.name = ahead_.name ? std::move(*ahead_.name) : name_of(header_),
                     .begin = at_ + kBlockBytes,
                     .bytes = ahead_.bytes.value_or(*size)};
    ahead_ = {};
    if (auto checked = check_room(member.bytes); !checked) return tl::unexpected(checked.error());
    move_on(member.bytes);
    // Before POSIX, a folder was a file whose name ends like that.
    if (member.name.ends_with('/')) return std::nullopt;
    return member;
  }

  // Checks that the file has room for the data after the header.
  Result<void> check_room(std::int64_t size) const {
    const std::int64_t left = file_.bytes - at_ - kBlockBytes;
    if (size > left) {
      return refuse("a member claims " + format_count(size) + " bytes, but the file has " +
                    format_count(left));
    }
    return {};
  }

  // The file may lack what fills the last block: then it lacks the mark of the end, too.
  void move_on(std::int64_t size) {
    at_ += kBlockBytes + (size + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  }

  Result<void> take_ahead(char type, std::int64_t size) {
    if (size > (type == 'L' ? kMaxNameBytes : kMaxRecordBytes)) {
      return refuse("a name takes " + format_count(size) + " bytes");
    }
    if (auto checked = check_room(size); !checked) return checked;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
    if (auto read = read_all_at(file_, at_ + kBlockBytes, bytes, path_); !read) return read;
    if (type == 'L') {
      ahead_.name = std::string(bytes.begin(), std::ranges::find(bytes, 0));
    } else {
      bool is_sparse = false;
      if (!take_records(std::string(bytes.begin(), bytes.end()), ahead_, is_sparse)) {
        return refuse("the pax records are damaged");
      }
      if (is_sparse) {
        return refuse("holds a sparse file", "pack it without --sparse", ErrorKind::unsupported);
      }
    }
    move_on(size);
    return {};
  }

  const DataFile& file_;
  const std::string& path_;
  std::int64_t at_ = 0;  // of the header
  Block header_{};
  Ahead ahead_;
};

}  // namespace

Result<std::vector<TarMember>> read_tar_index(const DataFile& file, const std::string& path) {
  return Reader(file, path).read();
}

}  // namespace autotuned::input
