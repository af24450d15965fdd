// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/label_peek.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <ios>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "daemon/guide/folder_listing.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::int64_t kMaxClasses = 65'536;  // that a recipe takes

// The value after `'key':` in the header, up to the next key.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  return trimmed(header.substr(at + key.size()));
}

std::optional<std::int64_t> number_in(std::string_view text, int base = 10) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, base);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) return std::nullopt;
  return number;
}

// "(60000, 28, 28)" and what follows.
std::optional<std::vector<std::int64_t>> shape_in(std::string_view text) {
  const std::size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos) return std::nullopt;
  text = text.substr(1, end - 1);
  std::vector<std::int64_t> shape;
  while (!trimmed(text).empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const auto length = number_in(trimmed(text.substr(0, comma)));
    if (!length) return std::nullopt;
    shape.push_back(*length);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return shape;
}

std::optional<std::int64_t> as_classes(std::int64_t highest) {
  if (highest < 0 || highest >= kMaxClasses) return std::nullopt;
  return std::max<std::int64_t>(highest + 1, 2);
}

// A field of a tar header: text up to a null byte or a blank.
std::string_view tar_field(std::string_view header, std::size_t at, std::size_t length) {
  const std::string_view field = header.substr(at, length);
  return trimmed(field.substr(0, std::min(field.find('\0'), field.size())));
}

}  // namespace

std::optional<ArrayForm> array_form_of(const std::filesystem::path& file) {
  constexpr std::size_t kMaxHeaderBytes = 4096;
  const std::string begin = first_bytes_of(file, kMaxHeaderBytes);
  if (!begin.starts_with("\x93NUMPY") || begin.size() < 12) return std::nullopt;
  const auto byte = [&begin](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(begin[at]));
  };
  const std::size_t text_begin = byte(6) == 1 ? 10 : 12;  // the length has two bytes, or four
  ArrayForm form;
  form.data_begin = static_cast<std::int64_t>(text_begin + byte(8) + 256 * byte(9));
  const std::string_view header = std::string_view(begin).substr(text_begin);
  const std::string_view type = value_of(header, "'descr':");
  auto shape = shape_in(value_of(header, "'shape':"));
  // "'<i8'", in the order of bytes of this machine.
  if (!shape || type.size() < 5 || type[0] != '\'' || type[1] == '>') return std::nullopt;
  form.kind = type[2];
  form.item_bytes = type[3] - '0';
  form.shape = std::move(*shape);
  return form;
}

std::optional<std::int64_t> classes_in_array(const std::filesystem::path& file,
                                             std::int64_t most_labels) {
  const auto form = array_form_of(file);
  if (!form || form->shape.empty() || (form->kind != 'u' && form->kind != 'i')) return std::nullopt;
  if (form->item_bytes < 1 || form->item_bytes > 8) return std::nullopt;
  const auto item_bytes = static_cast<std::size_t>(form->item_bytes);
  const auto labels =
      static_cast<std::size_t>(std::clamp<std::int64_t>(form->shape[0], 0, most_labels));
  const std::string bytes =
      first_bytes_of(file, static_cast<std::size_t>(form->data_begin) + labels * item_bytes);
  std::int64_t highest = -1;
  for (auto at = static_cast<std::size_t>(form->data_begin); at + item_bytes <= bytes.size();
       at += item_bytes) {
    // Little-endian. A negative label is a mistake that the trainer names.
    std::uint64_t label = 0;
    for (std::size_t i = item_bytes; i > 0; --i)
      label = label * 256 + static_cast<unsigned char>(bytes[at + i - 1]);
    if (label < static_cast<std::uint64_t>(kMaxClasses))
      highest = std::max(highest, static_cast<std::int64_t>(label));
  }
  return as_classes(highest);
}

std::optional<std::int64_t> classes_in_shard(const std::filesystem::path& file,
                                             std::int64_t most_bytes) {
  constexpr std::int64_t kBlock = 512;
  std::ifstream input(file, std::ios::binary);
  std::string header(static_cast<std::size_t>(kBlock), '\0');
  std::int64_t highest = -1;
  for (std::int64_t at = 0; at < most_bytes;) {
    input.seekg(at);
    if (!input.read(header.data(), kBlock)) break;
    const auto size = number_in(tar_field(header, 124, 12), 8);
    if (!size || tar_field(header, 0, 100).empty()) break;
    if (tar_field(header, 0, 100).ends_with(".cls") && *size < kBlock) {
      std::string text(static_cast<std::size_t>(*size), '\0');
      if (!input.read(text.data(), *size)) break;
      highest = std::max(highest, number_in(trimmed(text)).value_or(-1));
    }
    at += kBlock + (*size + kBlock - 1) / kBlock * kBlock;
  }
  return as_classes(highest);
}

}  // namespace autotuned::daemon
