// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/npy_header.hpp"

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

constexpr std::array<std::uint8_t, 6> kMagic = {0x93, 'N', 'U', 'M', 'P', 'Y'};
constexpr std::size_t kVersionEnd = kMagic.size() + 2;
// NumPy itself refuses more than 10,000.
constexpr std::uint32_t kMaxHeaderBytes = 65'536;
constexpr std::size_t kMaxDimensions = 32;
constexpr const char* kSaveAgain = "save the array again with numpy.save";

// The entries of the header's dictionary.
struct Facts {
  std::string type;
  bool is_by_columns = false;
  std::vector<std::int64_t> shape;
};

// The few forms of Python's literals that occur in a header. Each function takes one from the front, or
// nothing.
class Literals {
 public:
  explicit Literals(std::string_view text) : rest_(text) {}

  bool take(char letter) {
    skip_spaces();
    if (!rest_.starts_with(letter)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<std::string> take_text() {
    skip_spaces();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::optional<bool> take_truth() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    return std::nullopt;
  }

  // "()", "(3,)", "(3, 4)".
  std::optional<std::vector<std::int64_t>> take_shape() {
    if (!take('(')) return std::nullopt;
    std::vector<std::int64_t> shape;
    for (bool is_more = true; !take(')');) {
      const auto size = is_more ? take_size() : std::nullopt;
      if (!size || shape.size() == kMaxDimensions) return std::nullopt;
      shape.push_back(*size);
      is_more = take(',');
    }
    return shape;
  }

  [[nodiscard]] bool is_at_end() {
    skip_spaces();
    return rest_.empty();
  }

 private:
  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size()));
  }

  std::optional<std::int64_t> take_size() {
    skip_spaces();
    std::int64_t size = 0;
    const char* const end = rest_.data() + rest_.size();
    const auto parsed = std::from_chars(rest_.data(), end, size);
    if (parsed.ec != std::errc() || size < 0) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // of Python 2
    return size;
  }

  std::string_view rest_;
};

// A value of the dictionary; false when it is none of its key's.
bool take_value(Literals& literals, const std::string& key, Facts& facts) {
  if (key == "descr") {
    const auto type = literals.take_text();
    if (type) facts.type = *type;
    return type.has_value();
  }
  if (key == "fortran_order") {
    const auto is_by_columns = literals.take_truth();
    if (is_by_columns) facts.is_by_columns = *is_by_columns;
    return is_by_columns.has_value();
  }
  if (key != "shape") return false;
  auto shape = literals.take_shape();
  if (shape) facts.shape = std::move(*shape);
  return shape.has_value();
}

Result<Facts> facts_in(std::string_view text, const std::string& path) {
  Literals literals(text);
  Facts facts;
  std::vector<std::string> keys;
  const auto refuse = [&](std::string what) {
    return fail(ErrorKind::corrupt, "its header cannot be read: " + std::move(what), path,
                kSaveAgain);
  };
  if (!literals.take('{')) return refuse("the header is not a dictionary");
  for (bool is_more = true; !literals.take('}');) {
    auto key = is_more ? literals.take_text() : std::nullopt;
    if (!key || !literals.take(':')) return refuse("a key is missing");
    if (key == "descr" && (literals.take('[') || literals.take('{'))) {
      return fail(ErrorKind::unsupported, "holds records of several fields", path,
                  "save each field as an array of its own");
    }
    if (std::ranges::find(keys, *key) != keys.end() || !take_value(literals, *key, facts)) {
      return refuse("`" + shown_text(*key) + "` has the wrong type of file");
    }
    keys.push_back(std::move(*key));
    is_more = literals.take(',');
  }
  if (keys.size() != 3) return refuse("descr, fortran_order or shape is missing");
  if (!literals.is_at_end()) return refuse("data follows the dictionary");
  return facts;
}

Result<NpyHeader> header_of(const Facts& facts, const std::string& path) {
  const auto refuse = [&](const std::string& what, std::string remedy) {
    return fail(ErrorKind::unsupported, what, path, std::move(remedy));
  };
  std::string_view type = facts.type;
  const std::string shown = "`" + shown_text(facts.type) + "`";
  char order = '<';
  if (!type.empty() && std::string_view("<>|=").find(type.front()) != std::string_view::npos) {
    order = type.front();
    type.remove_prefix(1);
  }
  if (type.starts_with('O')) {
    return refuse("holds pickled Python objects, which are never loaded", "save numbers");
  }
  NpyHeader header{.shape = facts.shape};
  const bool is_number =
      type.size() == 2 && std::string_view("uif").find(type[0]) != std::string_view::npos &&
      std::string_view("1248").find(type[1]) != std::string_view::npos && type != "f1";
  if (!is_number) {
    return refuse("holds elements of the type " + shown + ", which are not integers or floats",
                  "save numbers, such as array.astype('<f4')");
  }
  header.kind = type[0];
  header.item_bytes = type[1] - '0';
  if (header.item_bytes > 1 && order == '>') {
    return refuse("holds big-endian numbers (" + shown + ")",
                  "save array.astype('" + header.type_text() + "')");
  }
  if (facts.is_by_columns) {
    return refuse("is stored by columns (Fortran order)", "save numpy.ascontiguousarray(array)");
  }
  return header;
}

// Magic, version, length of the dictionary.
Result<std::pair<std::int64_t, std::uint32_t>> dictionary_place(std::span<const std::uint8_t> start,
                                                                const std::string& path) {
  if (start.size() < kVersionEnd + 4 || !std::ranges::equal(start.first(kMagic.size()), kMagic)) {
    const bool is_archive = start.size() > 1 && start[0] == 'P' && start[1] == 'K';
    return fail(ErrorKind::corrupt, is_archive ? "is an archive (.npz)" : "is not a .npy file",
                path,
                is_archive ? "save its arrays one by one with numpy.save"
                           : "give files that numpy.save writes");
  }
  const int version = start[kMagic.size()];
  if (version < 1 || version > 3 || start[kMagic.size() + 1] != 0) {
    return fail(ErrorKind::unsupported,
                "has version " + std::to_string(version) + "." +
                    std::to_string(start[kMagic.size() + 1]) + " of the format, not 1.0 to 3.0",
                path, kSaveAgain);
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i)
    length |= std::uint32_t{start[kVersionEnd + i]} << (8 * i);
  if (length > kMaxHeaderBytes) {
    return fail(ErrorKind::corrupt, "claims a header of " + format_count(length) + " bytes", path,
                kSaveAgain);
  }
  return std::pair(static_cast<std::int64_t>(kVersionEnd + length_bytes), length);
}

// Whether the file holds the numbers of the header and nothing else.
Result<void> check_size(const NpyHeader& header, const DataFile& file, const std::string& path) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::int64_t there = file.bytes - header.data_begin;
  std::int64_t needed = header.item_bytes;
  const bool is_empty = std::ranges::find(header.shape, 0) != header.shape.end();
  for (const std::int64_t size : header.shape) {
    if (is_empty) break;
    if (needed > kMax / size) {
      return fail(ErrorKind::corrupt, "claims the shape " + header.shape_text(), path, kSaveAgain);
    }
    needed *= size;
  }
  if (is_empty) needed = 0;
  if (needed == there) return {};
  return fail(
      ErrorKind::corrupt,
      "holds " + format_count(there) + " bytes of numbers, but its shape " + header.shape_text() +
          " of " + header.type_text() + " takes " + format_count(needed),
      path, there < needed ? "copy or save it again" : "save one array per file with numpy.save");
}

}  // namespace

std::string NpyHeader::type_text() const {
  return std::string(item_bytes == 1 ? "|" : "<") + kind + std::to_string(item_bytes);
}

std::string NpyHeader::shape_text() const {
  std::string text = "(";
  for (const std::int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + (shape.size() == 1 ? ",)" : ")");
}

Result<NpyHeader> read_npy_header(const DataFile& file, const std::string& path) {
  std::array<std::uint8_t, kVersionEnd + 4> start{};
  const auto count = read_at(file, 0, start, path);
  if (!count) return tl::unexpected(count.error());
  const auto place = dictionary_place(std::span(start).first(*count), path);
  if (!place) return tl::unexpected(place.error());
  const auto [begin, length] = *place;
  if (begin + length > file.bytes) {
    return fail(ErrorKind::corrupt, "the file ends within its header", path,
                "copy or save it again");
  }
  std::vector<std::uint8_t> bytes(length);
  if (auto read = read_all_at(file, begin, bytes, path); !read) return tl::unexpected(read.error());
  const auto facts =
      facts_in(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), path);
  if (!facts) return tl::unexpected(facts.error());
  auto header = header_of(*facts, path);
  if (!header) return header;
  header->data_begin = begin + length;
  if (auto fits = check_size(*header, file, path); !fits) return tl::unexpected(fits.error());
  return header;
}

}  // namespace autotuned::input
