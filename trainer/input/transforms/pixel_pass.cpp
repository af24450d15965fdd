// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/pixel_pass.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace autotuned::input {
namespace {

// Three channels of so many floats, twice, fit into the nearest cache.
constexpr int kPixelsAtATime = 1024;
// Padding between two channels, so that they are not a multiple of 4 KiB apart: otherwise loads would wait for stores
// that only look like stores to the same address.
constexpr std::size_t kGap = 48;

std::uint8_t* at(void* data, Element element, std::size_t index) {
  return static_cast<std::uint8_t*>(data) + index * bytes_of(element);
}

}  // namespace

void PixelPass::append(std::unique_ptr<const Stage> stage, std::uint64_t draws_seed) {
  steps_.push_back({std::move(stage), draws_seed});
}

PixelPass::Scratch PixelPass::make_scratch() const {
  Scratch scratch;
  for (const Step& step : steps_)
    scratch.memories.push_back(step.stage->make_memory());
  return scratch;
}

void PixelPass::run_stages(std::size_t first, std::size_t last, const SampleShape& shape,
                           Planes from, void* to, Scratch& scratch) const {
  const auto width = static_cast<std::size_t>(shape.width);
  const std::size_t plane = width * static_cast<std::size_t>(shape.height);
  const int most_rows = std::max(1, kPixelsAtATime / shape.width);
  const std::size_t most = static_cast<std::size_t>(most_rows) * width + kGap;
  for (std::vector<float>& rows : scratch.rows) {
    rows.resize(std::max(rows.size(), most * static_cast<std::size_t>(shape.channels)));
  }
  const Element final = output_of(last - 1);
  const bool is_in_place = from.data == to;
  for (int row = 0; row < shape.height; row += most_rows) {
    const std::size_t offset = static_cast<std::size_t>(row) * width;
    PixelRows rows{.first_row = row,
                   .rows = std::min(most_rows, shape.height - row),
                   .width = shape.width,
                   .channels = shape.channels,
                   .from_element = from.element,
                   .from = at(from.data, from.element, offset),
                   .from_stride = plane};
    for (std::size_t i = first; i < last; ++i) {
      if (i + 1 == last && !is_in_place) {
        rows.to = at(to, final, offset);
        rows.to_stride = plane;
      } else {
        rows.to = scratch.rows[i % 2].data();
        rows.to_stride = most;
      }
      stage(i).apply_rows(rows, scratch.memories[i].get());
      rows.from_element = output_of(i);
      rows.from = rows.to;
      rows.from_stride = rows.to_stride;
    }
    if (!is_in_place) continue;
    for (int channel = 0; channel < shape.channels; ++channel) {
      const auto index = static_cast<std::size_t>(channel);
      std::memcpy(at(to, final, index * plane + offset), at(rows.to, final, index * most),
                  rows.count() * bytes_of(final));
    }
  }
}

void PixelPass::run(const Sample& sample, std::uint64_t place, std::size_t stages, void* out,
                    Scratch& scratch) const {
  assert(stages >= 1 && stages <= size());
  for (std::size_t i = 0; i < stages; ++i) {
    stage(i).begin_sample(sample.shape, RandomStream(steps_[i].seed, place),
                          scratch.memories[i].get());
  }
  // Never written to: `out` is another place.
  void* const from = const_cast<std::uint8_t*>(sample.bytes.data());
  run_stages(0, stages, sample.shape, {sample.element, from}, out, scratch);
}

void PixelPass::run_over_batch(const Assembled& batch, std::size_t stages, void* out,
                               Scratch& scratch) const {
  assert(stages >= 1 && stages <= size());
  const auto elements = static_cast<std::size_t>(batch.shape.elements());
  Planes from{batch.element, batch.bytes};
  for (std::size_t i = 0; i < stages; ++i) {
    const Element made = output_of(i);
    // Where bytes become floats, and at the end, the batch moves to where it belongs.
    void* const to = made != from.element || i + 1 == stages ? out : from.data;
    for (std::int64_t sample = 0; sample < batch.samples; ++sample) {
      const auto index = static_cast<std::size_t>(sample);
      const RandomStream draws(steps_[i].seed, batch.first_place + index);
      stage(i).begin_sample(batch.shape, draws, scratch.memories[i].get());
      run_stages(i, i + 1, batch.shape,
                 {from.element, at(from.data, from.element, index * elements)},
                 at(to, made, index * elements), scratch);
    }
    from = {made, to};
  }
}

}  // namespace autotuned::input
