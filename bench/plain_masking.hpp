// SPDX-License-Identifier: Apache-2.0
// The input of recipes/photo_masking.yaml as one plain loop over libjpeg in each thread, which no framework
// can be much faster than: the crop's lines are masked, turned into colours and scaled as they are decoded.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "recipes/recipe.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::bench {

class PlainMasking {
 public:
  // Whether the recipe has that input.
  [[nodiscard]] static bool is_of(const recipes::Recipe& recipe);

  // Each thread fills a batch of its own, over and over. `dataset` must outlive this.
  PlainMasking(const input::Dataset& dataset, std::int64_t batch_size, int threads);
  ~PlainMasking();
  PlainMasking(const PlainMasking&) = delete;
  PlainMasking& operator=(const PlainMasking&) = delete;

  // Loads for so long; how many samples. What libjpeg cannot decode ends the program.
  [[nodiscard]] std::int64_t load(std::chrono::nanoseconds duration);
  // The first sample of each thread's batch, channel after channel.
  [[nodiscard]] std::span<const float> first_sample(std::size_t thread) const;

 private:
  class Worker;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace autotuned::bench
