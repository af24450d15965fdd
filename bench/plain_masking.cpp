// SPDX-License-Identifier: Apache-2.0
#include "bench/plain_masking.hpp"

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "bench/recipe_job.hpp"
#include "trainer/input/common/random.hpp"
#include "trainer/input/pixels/mask.hpp"

// jpeglib.h does not include what it needs.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

namespace autotuned::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSize = 256;
constexpr std::size_t kPlane = std::size_t{kSize} * kSize;
constexpr std::uint32_t kMaskParts = 16'384;  // of 65,536: a quarter
constexpr std::size_t kPixelBytes = 4;

struct Row {
  float red, green, blue, offset;
};
constexpr Row scaled(Row row) {
  return {row.red / 255, row.green / 255, row.blue / 255, row.offset / 255};
}
constexpr std::array<Row, 3> kMatrix = {scaled({0.299F, 0.587F, 0.114F, 0.0F}),
                                        scaled({-0.16874F, -0.33126F, 0.5F, 128.0F}),
                                        scaled({0.5F, -0.41869F, -0.08131F, 128.0F})};

}  // namespace

class PlainMasking::Worker {
 public:
  Worker(const input::Dataset& dataset, std::int64_t batch_size, int number)
      : dataset_(dataset),
        draws_(17, static_cast<std::uint64_t>(number)),
        batch_(static_cast<std::size_t>(batch_size) * 3 * kPlane) {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  ~Worker() { jpeg_destroy_decompress(&info_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void load_until(Clock::time_point end) {
    loaded_ = 0;
    for (std::size_t at = 0; Clock::now() < end; ++loaded_) {
      load(batch_.data() + at);
      at = (at + 3 * kPlane) % batch_.size();
    }
  }
  [[nodiscard]] std::int64_t loaded() const { return loaded_; }
  [[nodiscard]] std::span<const float> first_sample() const {
    return std::span(batch_).first(3 * kPlane);
  }

 private:
  [[nodiscard]] std::uint64_t draw(std::uint64_t most) { return draws_.at(next_++) % (most + 1); }

  void load(float* out) {
    const auto last = static_cast<std::uint64_t>(dataset_.size() - 1);
    value_of(dataset_.read_encoded(static_cast<std::int64_t>(draw(last)), file_));
    jpeg_mem_src(&info_, file_.data(), file_.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_EXT_RGBX;
    jpeg_start_decompress(&info_);
    row_.resize(info_.output_width * kPixelBytes);
    const auto left = static_cast<JDIMENSION>(draw(info_.output_width - kSize));
    const auto top = static_cast<JDIMENSION>(draw(info_.output_height - kSize));
    JDIMENSION first = left;  // the decoder moves it to where it can begin
    JDIMENSION width = kSize;
    jpeg_crop_scanline(&info_, &first, &width);
    if (top > 0) jpeg_skip_scanlines(&info_, top);
    mask_.reshape(kSize, kSize);
    mask_.draw(kMaskParts, input::RandomStream(23, next_++));
    mask_.dilate(input::Dilation::bits);
    JSAMPROW line = row_.data();
    for (int y = 0; y < kSize; ++y, out += kSize) {
      jpeg_read_scanlines(&info_, &line, 1);
      convert(row_.data() + (left - first) * kPixelBytes, mask_.row_of(y), out);
    }
    jpeg_abort_decompress(&info_);
  }

  // One line into three planes.
  static void convert(const std::uint8_t* from, const std::uint64_t* masked, float* out) {
    for (std::size_t x = 0; x < kSize; ++x, from += kPixelBytes) {
      const std::uint32_t keep = ((masked[x / 64] >> (x % 64)) & 1U) != 0 ? 0U : 0xFFU;
      const auto red = static_cast<float>(from[0] & keep);
      const auto green = static_cast<float>(from[1] & keep);
      const auto blue = static_cast<float>(from[2] & keep);
      for (std::size_t channel = 0; channel < kMatrix.size(); ++channel) {
        const Row& row = kMatrix[channel];
        out[channel * kPlane + x] =
            row.red * red + row.green * green + row.blue * blue + row.offset;
      }
    }
  }

  const input::Dataset& dataset_;
  input::RandomStream draws_;
  std::uint64_t next_ = 0;
  std::vector<float> batch_;
  std::vector<std::uint8_t> file_;
  std::vector<std::uint8_t> row_;
  input::Mask mask_;
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct info_{};
  std::int64_t loaded_ = 0;
};

bool PlainMasking::is_of(const recipes::Recipe& recipe) {
  constexpr std::array kTypes = {"decode_jpeg", "random_crop", "random_mask", "rgb_to_yuv",
                                 "scale"};
  return std::ranges::equal(recipe.input, kTypes, {}, &recipes::Component::type) &&
         recipe.input[1].parameters.value("size", Json()) == kSize &&
         recipe.input[2].parameters.value("ratio", Json()) == 0.25;
}

PlainMasking::PlainMasking(const input::Dataset& dataset, std::int64_t batch_size, int threads) {
  for (int i = 0; i < threads; ++i)
    workers_.push_back(std::make_unique<Worker>(dataset, batch_size, i));
}

PlainMasking::~PlainMasking() = default;

std::int64_t PlainMasking::load(std::chrono::nanoseconds duration) {
  const auto end = Clock::now() + duration;
  {
    std::vector<std::jthread> threads;
    for (const auto& worker : workers_)
      threads.emplace_back([&worker, end] { worker->load_until(end); });
  }
  std::int64_t samples = 0;
  for (const auto& worker : workers_)
    samples += worker->loaded();
  return samples;
}

std::span<const float> PlainMasking::first_sample(std::size_t thread) const {
  return workers_[thread]->first_sample();
}

}  // namespace autotuned::bench
