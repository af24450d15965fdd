// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_index/jpeg_scan.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "trainer/input/jpeg_index/jpeg_codes.hpp"
#include "trainer/input/jpeg_index/jpeg_part_file.hpp"

namespace autotuned::input {
namespace {

constexpr int kBlockEnd = 64;
// The bytes that a reader may read after the end: a whole block of the longest codes, and a word.
constexpr std::size_t kPadding = 64 * 4 + 16;
// A larger difference of DC values than any of 8 bits.
constexpr int kMaxDc = 2047;

// A code as it is looked up, by the bits that begin with it.
struct alignas(4) Entry {
  std::uint8_t bits = 0;   // of the code; 0: longer than the look
  std::uint8_t total = 0;  // with the bits of the value
  std::uint8_t step = 0;   // AC: to the next coefficient. DC: bits of the value
};

constexpr int kLook = 10;
constexpr int kEndStep = 128;  // of the symbol that ends a block
constexpr std::uint8_t kZeroRun = 0xf0;

Entry entry_of(std::uint8_t symbol, int bits, bool is_dc) {
  const unsigned value_bits = symbol & 15U;
  const unsigned run = symbol >> 4U;
  Entry entry{.bits = static_cast<std::uint8_t>(bits),
              .total = static_cast<std::uint8_t>(static_cast<unsigned>(bits) + value_bits)};
  if (is_dc) {
    entry.step = static_cast<std::uint8_t>(value_bits);
  } else {
    const bool is_end = value_bits == 0 && symbol != kZeroRun;
    entry.step = static_cast<std::uint8_t>(is_end ? kEndStep : static_cast<int>(run) + 1);
  }
  return entry;
}

class Lookup {
 public:
  bool assign(std::span<const std::uint8_t> table, bool is_dc) {
    short_.fill({});
    long_.clear();
    constexpr std::uint8_t kMaxDcBits = 15;
    bool is_known = true;
    const bool is_code =
        for_each_code(table, [&](std::uint8_t symbol, std::uint32_t code, int bits) {
          is_known &= !is_dc || symbol <= kMaxDcBits;
          const Entry entry = entry_of(symbol, bits, is_dc);
          if (bits > kLook) {
            long_.push_back({code << static_cast<unsigned>(kLongestCode - bits), entry});
            return;
          }
          const auto spare = static_cast<unsigned>(kLook - bits);
          std::fill_n(short_.begin() + (code << spare), std::size_t{1} << spare, entry);
        });
    return is_code && is_known;
  }

  // The entry of the code at the front of `word`. Its `bits` is 0 if there is none.
  [[nodiscard]] Entry find(std::uint64_t word) const {
    const Entry entry = short_[word >> (64 - kLook)];
    if (entry.bits != 0) [[likely]]
      return entry;
    return find_long(static_cast<std::uint32_t>(word >> (64 - kLongestCode)));
  }

 private:
  struct Long {
    std::uint32_t first = 0;  // of the patterns of kLongestCode bits that begin with it
    Entry entry;
  };

  [[nodiscard]] Entry find_long(std::uint32_t pattern) const {
    const auto behind = std::ranges::upper_bound(long_, pattern, {}, &Long::first);
    if (behind == long_.begin()) return {};
    const Long& found = *(behind - 1);
    const auto patterns = std::uint32_t{1}
                          << static_cast<unsigned>(kLongestCode - found.entry.bits);
    return pattern - found.first < patterns ? found.entry : Entry{};
  }

  std::array<Entry, std::size_t{1} << kLook> short_{};
  std::vector<Long> long_;  // by their patterns
};

// The code without stuffed bytes, with the parts between restarts joined.
struct Code {
  std::vector<std::uint8_t> bytes;    // kPadding behind them
  std::vector<std::size_t> ends;      // of what is between restarts
  std::vector<std::size_t> left_out;  // where a byte of the file is missing before, once for each
  std::size_t size = 0;

  // False unless the code ends with the picture.
  bool assign(std::span<const std::uint8_t> code) {
    bytes.resize(code.size() + kPadding);
    ends.clear();
    left_out.clear();
    size = 0;
    for (std::size_t at = 0;;) {
      const auto* const from = code.data() + at;
      const auto* const mark =
          static_cast<const std::uint8_t*>(std::memchr(from, kMark, code.size() - at));
      if (mark == nullptr) return false;
      const auto count = static_cast<std::size_t>(mark - from);
      std::memcpy(bytes.data() + size, from, count);
      size += count;
      at += count + 2;
      if (at > code.size()) return false;
      const std::uint8_t kind = mark[1];
      if (kind == 0) {
        bytes[size++] = kMark;
        left_out.push_back(size);
        continue;
      }
      ends.push_back(size);
      if (kind == kEndOfImage) break;
      const auto expected = kFirstRestart + (ends.size() - 1) % kRestarts;
      if (kind != expected) return false;
      left_out.insert(left_out.end(), 2, size);
    }
    std::memset(bytes.data() + size, 0, kPadding);
    return true;
  }
};

std::uint64_t word_at(const std::uint8_t* bytes, std::size_t bit) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes + bit / 8, sizeof word);
  if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
  return word << (bit % 8);
}

// The difference that `bits` bits at the front of a word stand for.
int value_of(std::uint64_t word, unsigned bits) {
  if (bits == 0) return 0;
  const auto value = static_cast<int>(word >> (64 - bits));
  const bool is_negative = (word >> 63U) == 0;
  return is_negative ? value - (1 << bits) + 1 : value;
}

}  // namespace

struct JpegScanner::State {
  std::array<Lookup, 4> dc;
  std::array<Lookup, 4> ac;
  Code code;
  std::vector<JpegPoint> points;
  std::array<int, 3> last{};  // DC values

  // Skips the block that begins at `bit`. Returns where it ends; 0: the code is invalid.
  std::size_t pass_block(std::size_t bit, const Lookup& dc_table, const Lookup& ac_table,
                         int& dc_value) const {
    // A word that begins at any bit has at least this many bits of the code.
    constexpr unsigned kSure = 57;
    constexpr unsigned kMaxBits = kLongestCode + 15;
    const std::uint8_t* const bytes = code.bytes.data();
    std::uint64_t word = word_at(bytes, bit);
    const Entry dc_entry = dc_table.find(word);
    if (dc_entry.bits == 0) return 0;
    dc_value += value_of(word << dc_entry.bits, dc_entry.step);
    bit += dc_entry.total;
    word = word_at(bytes, bit);
    unsigned used = 0;
    for (int at = 1; at < kBlockEnd;) {
      if (used > kSure - kMaxBits) {
        bit += used;
        word = word_at(bytes, bit);
        used = 0;
      }
      const Entry entry = ac_table.find(word);
      if (entry.bits == 0) return 0;
      word <<= entry.total;
      used += entry.total;
      at += entry.step;
      if (at > kBlockEnd && at < kEndStep) return 0;
    }
    return bit + used;
  }

  std::size_t pass_mcu(std::size_t bit, std::size_t end, const JpegHeader& header) {
    for (int i = 0; i < header.components; ++i) {
      const auto number = static_cast<std::size_t>(i);
      const JpegComponent& one = header.component[number];
      for (int block = 0; block < one.across * one.down; ++block) {
        bit = pass_block(bit, dc[one.dc], ac[one.ac], last[number]);
        if (bit == 0 || bit > end || std::abs(last[number]) > kMaxDc) return 0;
      }
    }
    return bit;
  }

  bool scan(std::span<const std::uint8_t> file, const JpegHeader& header) {
    for (int i = 0; i < header.components; ++i) {
      const JpegComponent& one = header.component[static_cast<std::size_t>(i)];
      if (!dc[one.dc].assign(header.dc[one.dc], true)) return false;
      if (!ac[one.ac].assign(header.ac[one.ac], false)) return false;
    }
    const auto scanned = file.subspan(header.scan_begin);
    if (scanned.size() > std::numeric_limits<std::uint32_t>::max() / 8) return false;
    if (!code.assign(scanned)) return false;
    return walk(header);
  }

  bool walk(const JpegHeader& header) {
    const int across = header.mcus_across();
    const std::int64_t mcus = std::int64_t{across} * header.mcus_down();
    const std::int64_t interval = header.restart_interval == 0 ? mcus : header.restart_interval;
    if (header.restart_interval % across != 0) return false;
    if (static_cast<std::int64_t>(code.ends.size()) != (mcus + interval - 1) / interval)
      return false;
    points.clear();
    points.reserve(points_of(header));
    std::size_t bit = 0;
    std::size_t part = 0;
    auto left_out = code.left_out.begin();
    const auto add_point = [&] {
      while (left_out != code.left_out.end() && *left_out <= bit / 8)
        ++left_out;
      const auto shift = static_cast<std::size_t>(left_out - code.left_out.begin());
      const auto place = static_cast<std::uint32_t>(bit + 8 * shift);
      JpegPoint& point = points.emplace_back();
      point.offset = {static_cast<std::uint16_t>(place), static_cast<std::uint16_t>(place >> 16U)};
      std::ranges::transform(last, point.dc.begin(),
                             [](int value) { return static_cast<std::int16_t>(value); });
    };
    last.fill(0);
    std::int64_t to_restart = interval;
    for (int row = 0; row < header.mcus_down(); ++row) {
      for (int column = 0; column < across; ++column) {
        if (to_restart == 0) {
          if (!ends_at(bit, part)) return false;
          bit = 8 * code.ends[part++];
          last.fill(0);
          to_restart = interval;
        }
        if (column % kMcusPerPoint == 0) add_point();
        bit = pass_mcu(bit, 8 * code.ends[part], header);
        if (bit == 0) return false;
        --to_restart;
      }
    }
    if (!ends_at(bit, part)) return false;
    bit = 8 * code.size;
    add_point();
    return true;
  }

  // Less than a byte is left.
  bool ends_at(std::size_t bit, std::size_t part) const { return (bit + 7) / 8 == code.ends[part]; }
};

JpegScanner::JpegScanner() : state_(std::make_unique<State>()) {}
JpegScanner::~JpegScanner() = default;

std::span<const JpegPoint> JpegScanner::scan(std::span<const std::uint8_t> file) {
  const auto header = read_jpeg_header(file);
  if (!header || !can_make_parts(*header) || !state_->scan(file, *header)) return {};
  return state_->points;
}

}  // namespace autotuned::input
