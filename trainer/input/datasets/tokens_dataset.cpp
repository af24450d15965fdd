// SPDX-License-Identifier: Apache-2.0
// Tokens, cut into blocks: of files that are read by position whenever a block is needed, or made up.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "trainer/input/common/random.hpp"
#include "trainer/input/datasets/data_file.hpp"
#include "trainer/input/datasets/dataset_types.hpp"
#include "trainer/input/datasets/npy_header.hpp"

namespace autotuned::input {
namespace {

constexpr std::int64_t kMaxContext = 65'536;
constexpr std::int64_t kMaxStride = 1'000'000'000'000;
constexpr std::int64_t kMaxVocabulary = 16'777'216;
constexpr std::int64_t kByteVocabulary = 256;
// How many tokens are examined when files are opened: this takes a tenth of a second.
constexpr std::int64_t kMaxScanned = std::int64_t{1} << 26U;
constexpr std::int64_t kScanChunk = 65'536;

// How a token lies in a file, in little-endian.
struct TokenType {
  std::string_view name = "uint8";
  int item_bytes = 1;
  bool is_signed = false;

  friend bool operator==(const TokenType&, const TokenType&) = default;
};
constexpr std::array kTokenTypes = {TokenType{"uint8", 1, false},  TokenType{"uint16", 2, false},
                                    TokenType{"uint32", 4, false}, TokenType{"uint64", 8, false},
                                    TokenType{"int8", 1, true},    TokenType{"int16", 2, true},
                                    TokenType{"int32", 4, true},   TokenType{"int64", 8, true}};

struct TokenFile {
  std::string path;
  DataFile file;
  TokenType type;
  std::int64_t begin = 0;  // of the first token, in bytes
  std::int64_t count = 0;  // tokens
};

template <class T>
void widen_items(const std::uint8_t* from, std::span<std::int32_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T value{};
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    to[i] = std::in_range<std::int32_t>(value) ? static_cast<std::int32_t>(value) : -1;
  }
}

// As many tokens as `to` has; what cannot be the number of one becomes -1.
void widen(const TokenType& type, const std::uint8_t* from, std::span<std::int32_t> to) {
  switch (type.item_bytes) {
    case 1:
      return type.is_signed ? widen_items<std::int8_t>(from, to)
                            : widen_items<std::uint8_t>(from, to);
    case 2:
      return type.is_signed ? widen_items<std::int16_t>(from, to)
                            : widen_items<std::uint16_t>(from, to);
    case 4:
      return type.is_signed ? widen_items<std::int32_t>(from, to)
                            : widen_items<std::uint32_t>(from, to);
    default:
      return type.is_signed ? widen_items<std::int64_t>(from, to)
                            : widen_items<std::uint64_t>(from, to);
  }
}

// Reads tokens of one file, from the one at `first` on. A token outside of the vocabulary is an error.
Result<void> read_tokens(const TokenFile& file, std::int64_t first, std::int64_t vocabulary,
                         std::span<std::int32_t> out) {
  // Kept by the thread, so that no block takes memory.
  thread_local std::vector<std::uint8_t> bytes;
  bytes.resize(out.size() * static_cast<std::size_t>(file.type.item_bytes));
  const std::int64_t offset = file.begin + first * file.type.item_bytes;
  if (auto read = read_all_at(file.file, offset, bytes, file.path); !read) return read;
  widen(file.type, bytes.data(), out);
  const auto wrong = std::ranges::find_if(
      out, [vocabulary](std::int32_t token) { return token < 0 || token >= vocabulary; });
  if (wrong == out.end()) return {};
  return fail(ErrorKind::invalid,
              "token " + format_count(first + (wrong - out.begin())) + " is " +
                  (*wrong < 0 ? "negative or too large" : format_count(*wrong)) +
                  ", and the vocabulary is " + format_count(vocabulary),
              file.path, "set vocabulary of the data, or the dtype in which the file was written");
}

bool is_compressed(std::string_view path) {
  constexpr std::array<std::string_view, 5> kEndings = {".gz", ".bz2", ".xz", ".zst", ".zip"};
  return std::ranges::any_of(kEndings,
                             [path](std::string_view ending) { return path.ends_with(ending); });
}

Result<TokenFile> open_token_array(const std::string& path, DataFile file) {
  const auto header = read_npy_header(file, path);
  if (!header) return tl::unexpected(header.error());
  const auto* const type = std::ranges::find_if(kTokenTypes, [&](const TokenType& known) {
    return known.item_bytes == header->item_bytes && known.is_signed == (header->kind == 'i');
  });
  if (header->kind == 'f' || header->shape.size() != 1 || type == kTokenTypes.end()) {
    return fail(ErrorKind::invalid,
                "holds " + header->shape_text() + " of " + header->type_text() + " as tokens", path,
                "save integers in one dimension");
  }
  return TokenFile{path, std::move(file), *type, header->data_begin, header->shape[0]};
}

// `dtype`: of files that do not say it; empty: by their names.
Result<TokenFile> open_token_file(const std::string& path, std::string_view dtype) {
  auto file = open_data_file(path);
  if (!file) return tl::unexpected(file.error());
  if (path.ends_with(".npy")) return open_token_array(path, std::move(*file));
  if (dtype.empty() && is_compressed(path)) {
    return fail(ErrorKind::unsupported, "is compressed, and tokens are read at any position", path,
                "unpack it");
  }
  if (dtype.empty()) dtype = path.ends_with(".bin") ? "uint16" : "uint8";
  const auto* const type = std::ranges::find(kTokenTypes, dtype, &TokenType::name);
  if (type == kTokenTypes.end()) {
    return fail(ErrorKind::unsupported, "`dtype` is " + shown_text(dtype), "data",
                "use uint8, uint16, uint32, int32 or int64");
  }
  if (file->bytes % type->item_bytes != 0) {
    return fail(ErrorKind::corrupt,
                "has " + format_count(file->bytes) + " bytes, and each " + std::string(type->name) +
                    " takes " + std::to_string(type->item_bytes),
                path, "write the file again, or set dtype to the type in which it was written");
  }
  const std::int64_t count = file->bytes / type->item_bytes;
  return TokenFile{path, std::move(*file), *type, 0, count};
}

Result<std::vector<TokenFile>> open_token_files(const Json& parameters) {
  const auto paths = file_list(parameters, "files");
  if (!paths) return tl::unexpected(paths.error());
  const std::string dtype = get_string(parameters, "dtype").value_or("");
  std::vector<TokenFile> files;
  for (const std::string& path : *paths) {
    auto file = open_token_file(path, dtype);
    if (!file) return tl::unexpected(file.error());
    if (!files.empty() && file->type != files.front().type) {
      return fail(ErrorKind::invalid,
                  "holds tokens in " + std::string(file->type.name) + ", and " +
                      files.front().path + " in " + std::string(files.front().type.name),
                  path, "give files of one type");
    }
    files.push_back(std::move(*file));
  }
  return files;
}

struct TokenScan {
  std::int64_t highest = 0;
  bool is_whole = true;     // all tokens were looked at
  bool looks_wider = true;  // every second token is 0, and others are not
};

// Looks at the first tokens, in the order of the files.
Result<TokenScan> scan_tokens(const std::vector<TokenFile>& files, std::int64_t vocabulary) {
  TokenScan found;
  bool has_other = false;
  std::int64_t room = kMaxScanned;
  std::vector<std::int32_t> tokens;
  for (const TokenFile& file : files) {
    for (std::int64_t first = 0; first < file.count; first += kScanChunk) {
      if (room <= 0) {
        found.is_whole = false;
        found.looks_wider = found.looks_wider && has_other;
        return found;
      }
      tokens.resize(static_cast<std::size_t>(std::min(kScanChunk, file.count - first)));
      if (auto read = read_tokens(file, first, vocabulary, tokens); !read) {
        return tl::unexpected(read.error());
      }
      found.highest = std::max<std::int64_t>(found.highest, *std::ranges::max_element(tokens));
      for (std::size_t i = 0; found.looks_wider && i < tokens.size(); ++i) {
        found.looks_wider = i % 2 == 0 || tokens[i] == 0;
        has_other = has_other || tokens[i] != 0;
      }
      room -= std::ssize(tokens);
    }
  }
  found.looks_wider = found.looks_wider && has_other;
  return found;
}

// A block of `context` tokens and the one that follows the last.
SampleType block_type(std::int64_t context) {
  return type_of(Element::token, {1, 1, static_cast<int>(context + 1)});
}

std::span<std::int32_t> as_tokens(std::span<std::uint8_t> bytes) {
  return {reinterpret_cast<std::int32_t*>(bytes.data()), bytes.size() / sizeof(std::int32_t)};
}

struct TokenBlocks {
  std::int64_t context = 1;
  std::int64_t stride = 1;
  std::int64_t vocabulary = 2;
  bool looks_wider = false;
};

class TokensDataset final : public Dataset {
 public:
  TokensDataset(std::vector<TokenFile> files, const TokenBlocks& blocks)
      : files_(std::move(files)), blocks_(blocks) {
    std::int64_t end = 0;
    for (const TokenFile& file : files_)
      ends_.push_back(end += file.count);
  }

  std::int64_t size() const override {
    return (ends_.back() - blocks_.context - 1) / blocks_.stride + 1;
  }
  SampleType type() const override { return block_type(blocks_.context); }
  int classes() const override { return static_cast<int>(blocks_.vocabulary); }
  TargetType target() const override {
    return {TargetKind::next_tokens, static_cast<int>(blocks_.context)};
  }
  std::int64_t label(std::int64_t /*index*/) const override { return 0; }
  std::optional<std::int64_t> overlap() const override {
    return (blocks_.context + blocks_.stride - 1) / blocks_.stride - 1;
  }
  // Smaller vocabularies are of numbers that only fit into a byte.
  bool has_bytes() const override {
    return files_.front().type == kTokenTypes[0] && blocks_.vocabulary >= kByteVocabulary;
  }

  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    std::span<std::int32_t> rest = as_tokens(out);
    for (std::int64_t token = index * blocks_.stride; !rest.empty();) {
      const Place place = place_of(token);
      const std::size_t count =
          std::min(rest.size(), static_cast<std::size_t>(place.file->count - place.first));
      auto read = read_tokens(*place.file, place.first, blocks_.vocabulary, rest.first(count));
      if (!read) return read;
      rest = rest.subspan(count);
      token += static_cast<std::int64_t>(count);
    }
    return {};
  }

  // The part in the file in which it begins.
  void will_need(std::int64_t index) const override {
    const Place place = place_of(index * blocks_.stride);
    const std::int64_t bytes = place.file->type.item_bytes;
    (void)::posix_fadvise(place.file->file.descriptor.get(),
                          static_cast<off_t>(place.file->begin + place.first * bytes),
                          static_cast<off_t>((blocks_.context + 1) * bytes), POSIX_FADV_WILLNEED);
  }

  std::string name(std::int64_t index) const override {
    const Place place = place_of(index * blocks_.stride);
    return "the block at token " + format_count(place.first) + " of " + place.file->path;
  }

  std::string doubt() const override {
    if (!blocks_.looks_wider) return {};
    return "every second token is 0; if " + files_.front().path +
           " holds tokens of twice as many bytes, write dtype: uint32";
  }

 private:
  struct Place {
    const TokenFile* file;
    std::int64_t first;  // token in it
  };
  Place place_of(std::int64_t token) const {
    assert(token >= 0 && token < ends_.back());
    const auto end = std::ranges::upper_bound(ends_, token);
    const TokenFile& file = files_[static_cast<std::size_t>(end - ends_.begin())];
    return {&file, token - (*end - file.count)};
  }

  std::vector<TokenFile> files_;
  std::vector<std::int64_t> ends_;  // of each file, in tokens
  TokenBlocks blocks_;
};

// The next token follows from the one before with a probability of 3/4, and is drawn from all otherwise.
class SyntheticTokens final : public Dataset {
 public:
  SyntheticTokens(std::int64_t samples, std::int64_t context, std::int64_t vocabulary,
                  std::uint64_t seed)
      : samples_(samples),
        context_(context),
        vocabulary_(static_cast<std::uint64_t>(vocabulary)),
        seed_(seed) {}

  std::int64_t size() const override { return samples_; }
  SampleType type() const override { return block_type(context_); }
  int classes() const override { return static_cast<int>(vocabulary_); }
  TargetType target() const override {
    return {TargetKind::next_tokens, static_cast<int>(context_)};
  }
  std::int64_t label(std::int64_t /*index*/) const override { return 0; }

  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    assert(index >= 0 && index < samples_);
    // Odd streams are blocks; the even one says which token follows which.
    const RandomStream drawn(seed_, static_cast<std::uint64_t>(index) * 2 + 1);
    const RandomStream following(seed_, 0);
    std::uint64_t token = 0;
    std::uint64_t place = 0;
    for (std::int32_t& written : as_tokens(out)) {
      const bool is_drawn = place == 0 || below(drawn.at(place), 4) == 0;
      token = below(is_drawn ? drawn.at(place + 1) : following.at(token), vocabulary_);
      written = static_cast<std::int32_t>(token);
      place += 2;
    }
    return {};
  }

 private:
  std::int64_t samples_;
  std::int64_t context_;
  std::uint64_t vocabulary_;
  std::uint64_t seed_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> open_tokens(const Json& parameters) {
  const auto context = bounded_integer(parameters, "context", 1, kMaxContext);
  if (!context) return tl::unexpected(context.error());
  const auto stride = bounded_integer(parameters, "stride", 1, kMaxStride, *context);
  if (!stride) return tl::unexpected(stride.error());
  const auto given = bounded_integer(parameters, "vocabulary", 2, kMaxVocabulary, 0);
  if (!given) return tl::unexpected(given.error());
  auto files = open_token_files(parameters);
  if (!files) return tl::unexpected(files.error());

  std::int64_t count = 0;  // below the bytes of the files together
  for (const TokenFile& file : *files)
    count += file.count;
  const std::string where =
      files->front().path +
      (files->size() > 1 ? " and " + std::to_string(files->size() - 1) + " more" : "");
  if (count <= *context) {
    return fail(ErrorKind::invalid,
                "has " + format_count(count) + " tokens, and a block takes " +
                    format_count(*context + 1) + ": the context, and the token after it",
                where, "give more text, or a shorter context");
  }
  if ((count - *context - 1) / *stride >= kMaxSamples) {
    return fail(ErrorKind::unsupported, "gives more than " + format_count(kMaxSamples) + " blocks",
                where, "use a longer stride");
  }

  TokenBlocks blocks{.context = *context, .stride = *stride, .vocabulary = *given};
  const bool are_bytes = files->front().type == kTokenTypes[0];
  if (are_bytes && *given == 0) blocks.vocabulary = kByteVocabulary;
  if (!are_bytes || blocks.vocabulary < kByteVocabulary) {
    const auto scanned = scan_tokens(*files, *given != 0 ? *given : kMaxVocabulary);
    if (!scanned) return tl::unexpected(scanned.error());
    if (*given == 0 && !scanned->is_whole) {
      return fail(ErrorKind::invalid,
                  "has " + format_count(count) + " tokens, too many to look for the largest", where,
                  "write vocabulary: the number of different tokens, such as 50257");
    }
    if (*given == 0) blocks.vocabulary = std::max<std::int64_t>(2, scanned->highest + 1);
    blocks.looks_wider = files->front().type.item_bytes == 2 && scanned->looks_wider;
  }
  return std::make_unique<TokensDataset>(std::move(*files), blocks);
}

Result<std::unique_ptr<Dataset>> open_synthetic_tokens(const Json& parameters) {
  const auto samples = bounded_integer(parameters, "samples", 1, kMaxSamples);
  if (!samples) return tl::unexpected(samples.error());
  const auto context = bounded_integer(parameters, "context", 1, kMaxContext);
  if (!context) return tl::unexpected(context.error());
  const auto vocabulary = bounded_integer(parameters, "vocabulary", 2, kMaxVocabulary);
  if (!vocabulary) return tl::unexpected(vocabulary.error());
  constexpr std::int64_t kAnySeed = std::numeric_limits<std::int64_t>::max();
  const auto seed = bounded_integer(parameters, "seed", 0, kAnySeed, 1);
  if (!seed) return tl::unexpected(seed.error());
  return std::make_unique<SyntheticTokens>(*samples, *context, *vocabulary,
                                           static_cast<std::uint64_t>(*seed));
}

}  // namespace autotuned::input
