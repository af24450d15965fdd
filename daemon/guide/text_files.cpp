// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/text_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/file_pattern.hpp"
#include "base/text.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTextContext = 128;
constexpr std::int64_t kMinTextBytes = 65'536;
// With more tokens the trainer does not search for the largest one.
constexpr std::int64_t kMaxTokensLookedAt = std::int64_t{1} << 26U;

std::int64_t bytes_of(const fs::path& file) {
  std::error_code failed;
  const auto bytes = fs::file_size(file, failed);
  return failed ? 0 : static_cast<std::int64_t>(bytes);
}

bool holds_tokens(const fs::path& file) {
  return lower_ending(file.filename().string()) == ".bin";
}

// `files` as a value of YAML.
std::string data_text(const std::string& files, std::string_view more = {}) {
  return fmt::format("type: tokens, files: {}, context: {}{}", files, kTextContext, more);
}

std::string pattern_text(const fs::path& file, const fs::path& from) {
  return yaml_text(as_pattern(as_named_from(file, from).string()));
}

DataFolder of_bytes(std::int64_t bytes) {
  DataFolder found{.samples = Samples::tokens};
  found.count = bytes / kTextContext;
  found.are_bytes = false;  // that become floats
  return found;
}

}  // namespace

bool is_text_file(const fs::path& file) {
  constexpr std::array<std::string_view, 4> kEndings = {".txt", ".text", ".md", ".bin"};
  const std::string ending = lower_ending(file.filename().string());
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

DataFolder look_at_text(const fs::path& file, const fs::path& from) {
  const std::int64_t bytes = bytes_of(file);
  const std::string name = file.filename().string();
  if (!holds_tokens(file)) {
    DataFolder found = of_bytes(bytes);
    found.found = "a text of " + format_count(bytes) + " bytes in " + name;
    found.data = data_text(pattern_text(file, from));
    return found;
  }
  const std::int64_t tokens = bytes / 2;
  DataFolder found = of_bytes(tokens);
  found.found = format_count(tokens) + " tokens in " + name;
  const bool is_large = tokens > kMaxTokensLookedAt;
  found.data = data_text(pattern_text(file, from), is_large ? ", vocabulary: 50257" : "");
  found.notes.emplace_back(
      "the tokens are taken for uint16, as nanoGPT writes them; dtype says "
      "otherwise");
  if (is_large) found.notes.emplace_back("vocabulary is that of GPT-2; change it if yours differs");
  return found;
}

std::optional<DataFolder> texts_in(const fs::path& folder, const FolderListing& listing,
                                   const fs::path& from) {
  const auto is_there = [&listing](const char* name) {
    return std::ranges::binary_search(listing.files, std::string(name));
  };
  if (is_there("train.bin")) {
    DataFolder found = look_at_text(folder / "train.bin", from);
    for (const char* const name : {"val.bin", "test.bin"}) {
      if (!found.test_data.empty() || !is_there(name)) continue;
      found.test_data = look_at_text(folder / name, from).data;
      found.found += std::string(", with ") + name + " for tests";
    }
    return found;
  }
  std::int64_t bytes = 0;
  std::vector<std::string> names;
  for (const std::string& name : listing.files) {
    if (!name.ends_with(".txt")) continue;
    names.push_back(name);
    bytes += bytes_of(folder / name);
  }
  if (bytes < kMinTextBytes) return std::nullopt;
  if (names.size() == 1) return look_at_text(folder / names.front(), from);
  DataFolder found = of_bytes(bytes);
  found.found = format_count(std::ssize(names)) + " texts of " + format_count(bytes) + " bytes";
  const std::string base = as_pattern(as_named_from(folder, from).string());
  found.data = data_text(yaml_text((base == "." ? std::string() : base + "/") + "*.txt"));
  return found;
}

}  // namespace autotuned::daemon
