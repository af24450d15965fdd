// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/png_decoder.hpp"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "trainer/input/decode/picture_memory.hpp"
#include "trainer/input/decode/planes.hpp"

namespace autotuned::input {
namespace {

constexpr std::array<std::uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
// The most bytes of one unpacked chunk. Only chunks that are skipped can be larger.
constexpr png_alloc_size_t kMaxChunkBytes = 8U << 20U;

}  // namespace

bool is_png(std::span<const std::uint8_t> file) {
  return file.size() >= kSignature.size() && std::ranges::equal(file.first<8>(), kSignature);
}

// An error leaves libpng by longjmp: between setjmp and there nothing may need a destructor.
struct PngDecoder::State {
  PngPixels kind = PngPixels::colours;
  std::jmp_buf target{};
  std::array<char, 128> message{};
  bool is_cut = false;
  std::span<const std::uint8_t> rest;  // of the file
  PictureMemory memory;
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool is_interlaced = false;
  SampleShape shape;
  std::vector<std::uint8_t> pixels;  // a row, or the whole of an interlaced picture
  std::vector<png_bytep> rows;       // of the whole

  void forget() {
    png_destroy_read_struct(&png, &info, nullptr);
    memory.reset();
  }

  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* const state = static_cast<State*>(png_get_error_ptr(png));
    std::snprintf(state->message.data(), state->message.size(), "%s", message);
    std::longjmp(state->target, 1);
  }
  // Every pixel is still what it should be.
  static void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}

  static png_voidp on_take(png_structp png, png_alloc_size_t bytes) {
    return static_cast<PictureMemory*>(png_get_mem_ptr(png))->take(bytes);
  }
  static void on_give_back(png_structp png, png_voidp taken) {
    static_cast<PictureMemory*>(png_get_mem_ptr(png))->give_back(taken);
  }

  static void on_read(png_structp png, png_bytep out, std::size_t count) {
    auto* const state = static_cast<State*>(png_get_io_ptr(png));
    if (count > state->rest.size()) {
      state->is_cut = true;
      png_error(png, "the file ends");
    }
    std::memcpy(out, state->rest.data(), count);
    state->rest = state->rest.subspan(count);
  }

  // False when it jumped out.
  bool read_header() {
    if (setjmp(target) != 0) return false;
    png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, &memory,
                                   on_take, on_give_back);
    if (png == nullptr) return false;
    info = png_create_info_struct(png);
    if (info == nullptr) return false;
    png_set_read_fn(png, this, on_read);
    png_set_chunk_malloc_max(png, kMaxChunkBytes);
    // Profiles, notes and whatever else changes no pixel.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, info);
    return true;
  }

  bool ask_for_pixels() {
    if (setjmp(target) != 0) return false;
    if (kind == PngPixels::numbers) {
      png_set_packing(png);  // of less than 8 bits: a byte each
    } else {
      png_set_palette_to_rgb(png);
      png_set_expand_gray_1_2_4_to_8(png);
      png_set_strip_16(png);
      png_set_gray_to_rgb(png);
      png_set_strip_alpha(png);
    }
    is_interlaced = png_set_interlace_handling(png) > 1;
    png_read_update_info(png, info);
    return true;
  }

  bool read_part(const Window& part, std::uint8_t* out, Remainder remainder) {
    if (setjmp(target) != 0) return false;
    read_rows(part, out, remainder);
    return true;
  }

  void read_rows(const Window& part, std::uint8_t* out, Remainder remainder) {
    if (is_interlaced) png_read_image(png, rows.data());
    const auto width = static_cast<std::size_t>(part.width);
    const std::size_t plane = width * static_cast<std::size_t>(part.height);
    const std::size_t skipped =
        static_cast<std::size_t>(part.left) * static_cast<std::size_t>(shape.channels);
    for (int y = 0; y < part.top + part.height; ++y) {
      if (!is_interlaced) png_read_row(png, pixels.data(), nullptr);
      if (y < part.top) continue;
      const std::uint8_t* const row =
          is_interlaced ? rows[static_cast<std::size_t>(y)] : pixels.data();
      if (kind == PngPixels::numbers) {
        std::memcpy(out, row + skipped, width);
      } else {
        split_row<kRgb>(row + skipped, width, out, plane);
      }
      out += width;
    }
    if (is_interlaced || remainder == Remainder::left) return;
    for (int y = part.top + part.height; y < shape.height; ++y)
      png_read_row(png, pixels.data(), nullptr);
  }

  tl::unexpected<Error> failure() const {
    if (is_cut) {
      return fail(ErrorKind::corrupt, "the file ends in the middle of the picture", {},
                  "copy or download it again");
    }
    if (png == nullptr || info == nullptr) {
      return fail(ErrorKind::out_of_memory, "no memory to decode the picture");
    }
    return fail(ErrorKind::corrupt,
                std::string("the picture cannot be decoded (") + message.data() + ")", {},
                "copy or download it again, or convert it");
  }
};

PngDecoder::PngDecoder(PngPixels pixels) : state_(std::make_unique<State>()) {
  state_->kind = pixels;
}

PngDecoder::~PngDecoder() {
  state_->forget();
}

Result<SampleShape> PngDecoder::begin(std::span<const std::uint8_t> file) {
  State& state = *state_;
  state.forget();
  state.is_cut = false;
  state.rest = file;
  if (!state.read_header()) return state.failure();
  const png_uint_32 height = png_get_image_height(state.png, state.info);
  const png_uint_32 width = png_get_image_width(state.png, state.info);
  if (std::int64_t{width} * height > kMaxPixels) {
    return fail(ErrorKind::unsupported,
                "has " + std::to_string(height) + " x " + std::to_string(width) + " pixels", {},
                "make it smaller");
  }
  const int colours = png_get_color_type(state.png, state.info);
  if (png_get_bit_depth(state.png, state.info) == 16 && colours == PNG_COLOR_TYPE_GRAY) {
    return fail(ErrorKind::unsupported, "has grey of 16 bits", {}, "convert it to 8 bits");
  }
  const bool has_numbers = state.kind == PngPixels::numbers;
  if (has_numbers && colours != PNG_COLOR_TYPE_GRAY && colours != PNG_COLOR_TYPE_PALETTE) {
    return fail(ErrorKind::unsupported, "has colours or transparency, and not a number per pixel",
                {},
                "save the number of the class of each pixel, as grey of 8 bits or by a palette "
                "(docs/recipe.md, Masks in colours)");
  }
  if (!state.ask_for_pixels()) return state.failure();
  state.shape = {has_numbers ? 1 : kRgb, static_cast<int>(height), static_cast<int>(width)};
  return state.shape;
}

Result<void> PngDecoder::decode(std::uint8_t* out) {
  return decode_part({.height = state_->shape.height, .width = state_->shape.width}, out);
}

Result<void> PngDecoder::decode_part(const Window& part, std::uint8_t* out, Remainder remainder) {
  State& state = *state_;
  const std::size_t row_bytes =
      static_cast<std::size_t>(state.shape.width) * static_cast<std::size_t>(state.shape.channels);
  const auto height = static_cast<std::size_t>(state.shape.height);
  state.pixels.resize(state.is_interlaced ? row_bytes * height : row_bytes);
  state.rows.clear();
  for (std::size_t y = 0; state.is_interlaced && y < height; ++y)
    state.rows.push_back(state.pixels.data() + y * row_bytes);
  if (!state.read_part(part, out, remainder)) return state.failure();
  return {};
}

}  // namespace autotuned::input
