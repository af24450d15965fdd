// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/jpeg_decoder.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <string>
#include <vector>

#include "trainer/input/decode/jpeg_memory.hpp"
#include "trainer/input/decode/planes.hpp"

// After jpeglib.h, which it needs.
#include <jerror.h>

namespace autotuned::input {
namespace {

constexpr std::size_t kRowBytes =
    4;  // red, green, blue and one unused: vector code reads it twice as fast
// Smooth upsampling of colour uses neighbouring pixels, so it gives other numbers at the edge of a decoded part than
// within the picture.
constexpr int kMargin = 2;
// A small file can ask for any number of passes over a large picture.
constexpr int kMaxScans = 500;

// Warnings of libjpeg after which every pixel is still what it should be.
bool is_harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_ADOBE_XFORM ||
         warning == JWRN_JFIF_MAJOR;
}

// An error leaves libjpeg by longjmp: between setjmp and there nothing may need a destructor.
struct Trap {
  jpeg_error_mgr manager{};  // first, so that a pointer to it is one to this
  std::jmp_buf target{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  bool is_cut = false;
};

Trap& trap_of(j_common_ptr info) {
  return *reinterpret_cast<Trap*>(info->err);
}

[[noreturn]] void leave(j_common_ptr info) {
  Trap& trap = trap_of(info);
  info->err->format_message(info, trap.message.data());
  std::longjmp(trap.target, 1);
}

void take_warning(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) leave(info);
}

void print_nothing(j_common_ptr /*info*/) {}

// All the bytes are there from the start: a request for more means that the end is reached.
boolean at_end(j_decompress_ptr info) {
  auto* const common = reinterpret_cast<j_common_ptr>(info);
  trap_of(common).is_cut = true;
  leave(common);
}

void skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<std::size_t>(count) > info->src->bytes_in_buffer) at_end(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<std::size_t>(count);
}

void do_nothing(j_decompress_ptr /*info*/) {}

void count_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  Trap& trap = trap_of(info);
  std::snprintf(trap.message.data(), trap.message.size(), "more than %d scans", kMaxScans);
  std::longjmp(trap.target, 1);
}

}  // namespace

struct JpegDecoder::State {
  Trap trap;
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  jpeg_decompress_struct info{};
  PictureMemory memory;
  bool is_made = false;           // the decompressor
  std::vector<std::uint8_t> row;  // kRowBytes per pixel, or one for grey pictures

  // False: libjpeg failed (longjmp). Nothing of the picture before may be left, above all no tables: a file without
  // tables would be decoded with them.
  bool read_header(std::span<const std::uint8_t> file) {
    if (setjmp(trap.target) != 0) return false;
    if (!is_made) {
      jpeg_destroy_decompress(&info);  // one that was half made
      jpeg_create_decompress(&info);
      take_memory_from(memory, info);
      info.src = &source;
      info.progress = &progress;
      is_made = true;
    }
    forget_picture(info);
    source.next_input_byte = file.data();
    source.bytes_in_buffer = file.size();
    jpeg_read_header(&info, TRUE);
    return true;
  }

  bool read_part(const Window& part, std::uint8_t* out, Remainder remainder, int first_column = 0) {
    if (setjmp(trap.target) != 0) return false;
    const bool is_exact = has_exact_parts();
    read_rows(part, out, is_exact, first_column);
    if (remainder == Remainder::checked) pass_over_rest(is_exact);
    return true;
  }

  SampleShape shape() const {
    const auto scaled = [this](JDIMENSION size) {
      return static_cast<int>((size + info.scale_denom - 1) / info.scale_denom);
    };
    return {kRgb, scaled(info.image_height), scaled(info.image_width)};
  }

  // Whether libjpeg gives the same bytes for a part as for the whole: tested for these.
  bool has_exact_parts() {
    if (info.progressive_mode || jpeg_has_multiple_scans(&info)) return false;
    if (info.num_components == 1) return true;
    const jpeg_component_info* const parts = info.comp_info;
    for (int i = 1; i < kRgb; ++i) {
      if (parts[i].h_samp_factor != 1 || parts[i].v_samp_factor != 1) return false;
    }
    const int across = parts[0].h_samp_factor;
    const int down = parts[0].v_samp_factor;
    return (across == 1 && down == 1) || (across == 2 && (down == 1 || down == 2));
  }

  void read_rows(const Window& part, std::uint8_t* out, bool is_exact, int first_column) {
    jpeg_start_decompress(&info);
    JDIMENSION left = 0;
    JDIMENSION top = 0;
    if (is_exact) {
      const int right =
          std::min(part.left + part.width + kMargin, static_cast<int>(info.output_width));
      left = static_cast<JDIMENSION>(std::max(part.left - kMargin, first_column));
      JDIMENSION width = static_cast<JDIMENSION>(right) - left;
      if (width < info.output_width) jpeg_crop_scanline(&info, &left, &width);
      if (part.top > 0) top = jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(part.top));
    }
    JSAMPROW line = row.data();
    for (; top < static_cast<JDIMENSION>(part.top); ++top)
      jpeg_read_scanlines(&info, &line, 1);
    const auto width = static_cast<std::size_t>(part.width);
    const std::size_t plane = width * static_cast<std::size_t>(part.height);
    const std::size_t first = static_cast<std::size_t>(part.left) - left;
    for (int y = 0; y < part.height; ++y, out += width) {
      jpeg_read_scanlines(&info, &line, 1);
      if (info.output_components == 1) {
        for (std::size_t channel = 0; channel < kRgb; ++channel)
          std::copy_n(line + first, width, out + channel * plane);
      } else {
        split_row<kRowBytes>(line + first * kRowBytes, width, out, plane);
      }
    }
  }

  // Skipping reads the codes of blocks without making pixels, but does not notice the end of a cut file, so the last
  // row is decoded.
  void pass_over_rest(bool is_exact) {
    if (jpeg_has_multiple_scans(&info)) return;  // all of it was read before the first row
    JSAMPROW line = row.data();
    const JDIMENSION last = info.output_height - 1;
    if (is_exact && info.output_scanline < last) {
      jpeg_skip_scanlines(&info, last - info.output_scanline);
    }
    while (info.output_scanline < info.output_height)
      jpeg_read_scanlines(&info, &line, 1);
  }

  tl::unexpected<Error> failure() const {
    if (trap.is_cut) {
      return fail(ErrorKind::corrupt, "the file ends in the middle of the picture", {},
                  "copy or download it again");
    }
    const int code = trap.manager.msg_code;
    if (code == JERR_NO_SOI) {
      return fail(ErrorKind::corrupt, "is not a JPEG file", {},
                  "give JPEG files only, or convert it; PNG files: image_files and decode");
    }
    const bool is_out_of_memory = code == JERR_OUT_OF_MEMORY;
    return fail(is_out_of_memory ? ErrorKind::out_of_memory : ErrorKind::corrupt,
                std::string("the picture cannot be decoded (") + trap.message.data() + ")", {},
                "copy or download it again, or convert it");
  }
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.info.err = jpeg_std_error(&state.trap.manager);
  state.trap.manager.error_exit = leave;
  state.trap.manager.emit_message = take_warning;
  state.trap.manager.output_message = print_nothing;
  state.source.init_source = do_nothing;
  state.source.fill_input_buffer = at_end;
  state.source.skip_input_data = skip;
  state.source.resync_to_restart = jpeg_resync_to_restart;
  state.source.term_source = do_nothing;
  state.progress.progress_monitor = count_scans;
}

JpegDecoder::~JpegDecoder() {
  jpeg_destroy_decompress(&state_->info);
}

Result<SampleShape> JpegDecoder::begin(std::span<const std::uint8_t> file) {
  State& state = *state_;
  state.trap.is_cut = false;
  if (file.empty()) {
    return fail(ErrorKind::corrupt, "the file is empty", {}, "copy or download it again");
  }
  if (!state.read_header(file)) return state.failure();
  jpeg_decompress_struct& info = state.info;
  if (info.num_components != 1 && info.num_components != kRgb) {
    return fail(
        ErrorKind::unsupported,
        "has " + std::to_string(info.num_components) + " colour components (CMYK), not grey or RGB",
        {}, "convert it to RGB");
  }
  if (std::int64_t{info.image_width} * info.image_height > kMaxPixels) {
    return fail(ErrorKind::unsupported,
                "has " + std::to_string(info.image_height) + " x " +
                    std::to_string(info.image_width) + " pixels",
                {}, "make it smaller");
  }
  if (info.num_components == kRgb) info.out_color_space = JCS_EXT_RGBX;
  info.dct_method = JDCT_ISLOW;
  state.row.resize(std::size_t{info.image_width} * kRowBytes);
  return shrink(1);
}

SampleShape JpegDecoder::shrink(int by) {
  jpeg_decompress_struct& info = state_->info;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(by);
  return state_->shape();
}

Result<void> JpegDecoder::decode(std::uint8_t* out) {
  const SampleShape shape = state_->shape();
  return decode_part({.height = shape.height, .width = shape.width}, out);
}

Result<void> JpegDecoder::decode_part(const Window& part, std::uint8_t* out, Remainder remainder) {
  // Not jpeg_finish_decompress: what may follow does not matter.
  if (!state_->read_part(part, out, remainder)) return state_->failure();
  return {};
}

Result<void> JpegDecoder::decode_part_from(int first_column, const Window& part,
                                           std::uint8_t* out) {
  if (!state_->read_part(part, out, Remainder::left, first_column)) return state_->failure();
  return {};
}

}  // namespace autotuned::input
