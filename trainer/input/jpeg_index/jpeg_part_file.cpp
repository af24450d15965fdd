// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_index/jpeg_part_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "trainer/input/jpeg_index/jpeg_codes.hpp"

namespace autotuned::input {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint8_t kEndOfBlock = 0;
constexpr int kMaxSide = 65'500;  // that libjpeg takes
// Smooth upsampling looks so far beside and above.
constexpr int kMarginColumns = 2;
constexpr int kMarginRows = 1;

constexpr std::size_t kMaxHeaderBytes = 4096;
// The most bytes that make() adds to a copied row: six blocks of the longest codes, and the end of the row.
constexpr std::size_t kMaxRowBytes = 256;
// libjpeg reads ahead by a word, and would read the last MCU of a row twice if it found a mark there.
constexpr std::size_t kRowPadding = 8;
// With less behind it, libjpeg reads an MCU of six blocks bit by bit.
constexpr std::size_t kTailBytes = std::size_t{6} * 512;

constexpr std::array<std::uint8_t, 12> kDcSymbols = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

int bits_of(int value) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(std::abs(value))));
}

// A coefficient whose code and value together have an odd number of bits: up to seven of them give any number of bits
// modulo 8.
struct Filler {
  std::size_t component = 0;
  unsigned code = 0;  // with the value
  int bits = 0;       // 0: there is none
};

struct Tables {
  std::array<JpegCodes, 4> dc;
  std::array<JpegCodes, 4> ac;
  Filler filler;

  bool assign(const JpegHeader& header) {
    filler = {};
    for (int i = 0; i < header.components; ++i) {
      const auto number = static_cast<std::size_t>(i);
      const JpegComponent& one = header.component[number];
      if (!is_repeated(header, number, &JpegComponent::dc)) {
        JpegCodes& codes = dc[one.dc];
        if (!codes.assign(header.dc[one.dc]) || !codes.add(kDcSymbols)) return false;
      }
      if (!is_repeated(header, number, &JpegComponent::ac)) {
        JpegCodes& codes = ac[one.ac];
        constexpr std::array<std::uint8_t, 1> kEnd = {kEndOfBlock};
        if (!codes.assign(header.ac[one.ac]) || !codes.add(kEnd)) return false;
        if (filler.bits == 0) filler = filler_of(codes, number);
      }
    }
    return filler.bits != 0;
  }

  // Whether a component before it has the same table.
  static bool is_repeated(const JpegHeader& header, std::size_t number,
                          std::uint8_t JpegComponent::*table) {
    const JpegComponent* const one = &header.component[number];
    return std::any_of(header.component.data(), one,
                       [&](const JpegComponent& other) { return other.*table == one->*table; });
  }

  static Filler filler_of(const JpegCodes& codes, std::size_t component) {
    constexpr unsigned kMaxRun = 7;  // seven such leave room for the end of the block
    for (const std::uint8_t symbol : codes.table().subspan(kLongestCode)) {
      const unsigned value_bits = symbol & 15U;
      const JpegCode code = codes.of(symbol);
      const unsigned bits = code.bits + value_bits;
      if (value_bits == 0 || symbol >> 4U > kMaxRun || bits % 2 == 0) continue;
      const unsigned value = (1U << value_bits) - 1;
      return {component, static_cast<unsigned>(code.code) << value_bits | value,
              static_cast<int>(bits)};
    }
    return {};
  }
};

// Into memory that is large enough.
class Writer {
 public:
  void begin(std::uint8_t* to) {
    to_ = to;
    bits_ = 0;
  }
  [[nodiscard]] std::uint8_t* end() const { return to_; }

  void put(std::initializer_list<int> bytes) {
    for (const int byte : bytes)
      *to_++ = static_cast<std::uint8_t>(byte);
  }
  void put(Bytes bytes) { to_ = std::ranges::copy(bytes, to_).out; }
  void put_segment(std::uint8_t kind, std::size_t bytes) {
    put({kMark, kind, static_cast<int>((bytes + 2) >> 8U), static_cast<int>((bytes + 2) & 255U)});
  }

  void put_bits(unsigned code, int bits) {
    word_ = word_ << static_cast<unsigned>(bits) | code;
    for (bits_ += bits; bits_ >= 8; bits_ -= 8)
      put_code_byte(static_cast<std::uint8_t>(word_ >> static_cast<unsigned>(bits_ - 8)));
  }
  void put(JpegCode code) { put_bits(code.code, code.bits); }
  void put_dc(const JpegCodes& codes, int value) {
    const int bits = bits_of(value);
    put(codes.of(static_cast<std::uint8_t>(bits)));
    const int pattern = value < 0 ? value + (1 << bits) - 1 : value;
    put_bits(static_cast<unsigned>(pattern), bits);
  }

  // Code that begins in the middle of a byte, where this one is as well.
  void put_code(Bytes code) {
    if (bits_ > 0) {
      const auto before = static_cast<unsigned>(bits_);
      const unsigned front = static_cast<unsigned>(word_) << (8 - before);
      const unsigned back = code[0] & (255U >> before);
      const std::size_t used = code[0] == kMark ? 2 : 1;
      put_code_byte(static_cast<std::uint8_t>(front | back));
      code = code.subspan(std::min(used, code.size()));
      bits_ = 0;
    }
    if (code.empty()) return;
    std::memcpy(to_, code.data(), code.size());
    to_ += code.size();
    if (code.back() == kMark) *to_++ = 0;
  }

 private:
  void put_code_byte(std::uint8_t byte) {
    *to_++ = byte;
    if (byte == kMark) *to_++ = 0;
  }

  std::uint8_t* to_ = nullptr;
  std::uint64_t word_ = 0;
  int bits_ = 0;  // of the word that are not written yet
};

// The MCUs that are needed, in the large picture; the ends are behind them.
struct Range {
  int first_row = 0;
  int end_row = 1;
  int first_column = 0;
  int end_column = 1;

  [[nodiscard]] int rows() const { return end_row - first_row; }
  // In the small one, with that of its own.
  [[nodiscard]] int columns() const { return 1 + end_column - first_column; }
};

Range range_of(const JpegHeader& header, const Window& part) {
  const int width = header.mcu_width();
  const int height = header.mcu_height();
  const int rows = header.component[0].down > 1 ? kMarginRows : 0;
  const auto round_up = [](int size, int unit) { return (size + unit - 1) / unit; };
  Range range;
  range.first_row = std::max(part.top - rows, 0) / height;
  range.end_row = round_up(std::min(part.top + part.height + rows, header.height), height);
  range.first_column = std::max(part.left - kMarginColumns, 0) / width;
  range.first_column -= range.first_column % kMcusPerPoint;
  range.end_column =
      round_up(std::min(part.left + part.width + kMarginColumns, header.width), width);
  return range;
}

// An edge that is one of the large picture's stays where it is, within an MCU.
int small_size(int mcus, int mcu_size, int end, int mcus_of_all, int size_of_all) {
  const int cut = end == mcus_of_all ? mcus_of_all * mcu_size - size_of_all : 0;
  return mcus * mcu_size - cut;
}

}  // namespace

bool can_make_parts(const JpegHeader& header) {
  // Colours of at most two columns are not smoothed, those of a wider picture are.
  constexpr int kNarrow = 4;
  if (header.component[0].across > 1 && header.width <= kNarrow) return false;
  const auto tables = std::make_unique<Tables>();
  return tables->assign(header);
}

struct JpegPartFile::State {
  Tables tables;
  Writer writer;
  std::vector<std::uint8_t> bytes;
  std::size_t size = 0;
  Window part;
  int first_column = 0;

  bool make(const JpegHeader& header, Bytes file, std::span<const JpegPoint> points,
            const Window& wanted) {
    if (points.size() != points_of(header) || !tables.assign(header)) return false;
    const Range range = range_of(header, wanted);
    const int height = small_size(range.rows(), header.mcu_height(), range.end_row,
                                  header.mcus_down(), header.height);
    const int width = small_size(range.columns(), header.mcu_width(), range.end_column,
                                 header.mcus_across(), header.width);
    if (width > kMaxSide || height > kMaxSide) return false;
    const Bytes code = file.subspan(header.scan_begin);
    const std::size_t most = kMaxHeaderBytes + code.size() + kTailBytes +
                             kMaxRowBytes * static_cast<std::size_t>(range.rows());
    if (bytes.size() < most) bytes.resize(most);
    writer.begin(bytes.data());
    put_header(header, height, width, range.columns());
    if (!put_rows(header, code, points, range)) return false;
    size = static_cast<std::size_t>(writer.end() - bytes.data()) + kTailBytes;
    first_column = header.mcu_width();
    part = wanted;
    part.top -= range.first_row * header.mcu_height();
    part.left -= (range.first_column - 1) * header.mcu_width();
    return true;
  }

  void put_header(const JpegHeader& header, int height, int width, int columns) {
    constexpr std::string_view kJfif("JFIF\0\1\1\0\0\1\0\1\0\0", 14);
    constexpr std::string_view kAdobe("Adobe\0d\0\0\0\0", 11);
    const auto put_text = [this](std::string_view text) {
      writer.put({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    };
    writer.put({kMark, 0xd8});
    if (header.is_jfif) {
      writer.put_segment(0xe0, kJfif.size());
      put_text(kJfif);
    }
    if (header.adobe_transform >= 0) {
      writer.put_segment(0xee, kAdobe.size() + 1);
      put_text(kAdobe);
      writer.put({header.adobe_transform});
    }
    const auto components = static_cast<std::size_t>(header.components);
    for (std::size_t i = 0; i < components; ++i) {
      if (Tables::is_repeated(header, i, &JpegComponent::quantisation)) continue;
      const Bytes table = header.quantisation[header.component[i].quantisation];
      writer.put_segment(0xdb, table.size());
      writer.put(table);
    }
    writer.put_segment(0xc1, 6 + 3 * components);
    writer.put({8, height >> 8, height & 255, width >> 8, width & 255, header.components});
    for (std::size_t i = 0; i < components; ++i) {
      const JpegComponent& one = header.component[i];
      writer.put({one.id, one.across << 4 | one.down, one.quantisation});
    }
    for (std::size_t i = 0; i < components; ++i) {
      const JpegComponent& one = header.component[i];
      if (!Tables::is_repeated(header, i, &JpegComponent::dc)) {
        put_codes(one.dc, tables.dc[one.dc].table());
      }
      if (!Tables::is_repeated(header, i, &JpegComponent::ac)) {
        put_codes(16 + one.ac, tables.ac[one.ac].table());
      }
    }
    writer.put_segment(0xdd, 2);
    writer.put({columns >> 8, columns & 255});
    writer.put_segment(0xda, 1 + 2 * components + 3);
    writer.put({header.components});
    for (std::size_t i = 0; i < components; ++i) {
      const JpegComponent& one = header.component[i];
      writer.put({one.id, one.dc << 4 | one.ac});
    }
    writer.put({0, 63, 0});
  }

  void put_codes(int number, Bytes table) {
    writer.put_segment(0xc4, 1 + table.size());
    writer.put({number});
    writer.put(table);
  }

  bool put_rows(const JpegHeader& header, Bytes code, std::span<const JpegPoint> points,
                const Range& range) {
    const auto in_row = static_cast<std::size_t>(points_in_row(header));
    const auto begin = static_cast<std::size_t>(range.first_column / kMcusPerPoint);
    const auto end =
        static_cast<std::size_t>((range.end_column + kMcusPerPoint - 1) / kMcusPerPoint);
    std::size_t copied = 0;  // up to here
    for (int row = range.first_row; row < range.end_row; ++row) {
      const std::size_t first = static_cast<std::size_t>(row) * in_row;
      const JpegPoint& from = points[first + begin];
      const std::size_t begin_byte = from.bit() / 8;
      std::size_t end_byte = (std::size_t{points[first + end].bit()} + 7) / 8;
      // Two rows share a byte at most. So a file cannot be asked for more bytes than it has.
      if (begin_byte + 1 < copied || begin_byte >= end_byte || end_byte > code.size()) return false;
      copied = end_byte;
      if (end_byte - begin_byte > 2 && code[end_byte - 2] == kMark &&
          code[end_byte - 1] / kRestarts == kFirstRestart / kRestarts) {
        end_byte -= 2;  // of the file's own restart before the next row
      }
      if (!put_lead(header, from)) return false;
      writer.put_code(code.subspan(begin_byte, end_byte - begin_byte));
      constexpr std::array<std::uint8_t, kRowPadding> kPadding{};
      writer.put(kPadding);
      const bool is_last = row + 1 == range.end_row;
      writer.put(
          {kMark, is_last ? kEndOfImage : kFirstRestart + (row - range.first_row) % kRestarts});
    }
    return true;
  }

  // The MCU at the beginning of a row.
  bool put_lead(const JpegHeader& header, const JpegPoint& from) {
    int bits = 0;
    for (int i = 0; i < header.components; ++i) {
      const auto number = static_cast<std::size_t>(i);
      const JpegComponent& one = header.component[number];
      const JpegCodes& dc = tables.dc[one.dc];
      const int value_bits = bits_of(from.dc[number]);
      if (value_bits >= static_cast<int>(kDcSymbols.size())) return false;
      const int blocks = one.across * one.down;
      bits += blocks * tables.ac[one.ac].of(kEndOfBlock).bits + value_bits;
      bits += dc.of(static_cast<std::uint8_t>(value_bits)).bits + (blocks - 1) * dc.of(0).bits;
    }
    const Filler& filler = tables.filler;
    const int missing = static_cast<int>(from.bit() % 8) - bits;
    // An odd number is its own inverse modulo 8.
    const int fillers = (missing * filler.bits) & 7;
    for (int i = 0; i < header.components; ++i) {
      const auto number = static_cast<std::size_t>(i);
      const JpegComponent& one = header.component[number];
      for (int block = 0; block < one.across * one.down; ++block) {
        writer.put_dc(tables.dc[one.dc], block == 0 ? from.dc[number] : 0);
        if (block == 0 && number == filler.component) {
          for (int k = 0; k < fillers; ++k)
            writer.put_bits(filler.code, filler.bits);
        }
        writer.put(tables.ac[one.ac].of(kEndOfBlock));
      }
    }
    return true;
  }
};

JpegPartFile::JpegPartFile() : state_(std::make_unique<State>()) {}
JpegPartFile::~JpegPartFile() = default;

bool JpegPartFile::make(const JpegHeader& header, Bytes file, std::span<const JpegPoint> points,
                        const Window& part) {
  return state_->make(header, file, points, part);
}

Bytes JpegPartFile::bytes() const {
  return {state_->bytes.data(), state_->size};
}
const Window& JpegPartFile::part() const {
  return state_->part;
}
int JpegPartFile::first_column() const {
  return state_->first_column;
}

}  // namespace autotuned::input
