// SPDX-License-Identifier: Apache-2.0
// MixUp and CutMix: batches in which each sample is mixed with its neighbour, and so are their classes. They do what
// MixUp and CutMix of torchvision.transforms.v2 do, with other random numbers. Private to trainer/: includes LibTorch.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/feed/feed.hpp"
#include "trainer/input/common/epoch_order.hpp"

namespace autotuned::trainer {

// The parameter of the Beta(alpha, alpha) distribution of a sample's own share; above 0, or nothing: not used. With both,
// each batch gets one of the two, each with probability 1/2.
struct MixRules {
  std::optional<double> mixup_alpha;
  std::optional<double> cutmix_alpha;

  [[nodiscard]] bool is_on() const { return mixup_alpha || cutmix_alpha; }
};

// How one batch is mixed: every pixel, or a rectangle.
struct Mixing {
  bool is_cut = false;
  double own_share = 1.0;  // of a sample in its target; in MixUp also in every pixel
  // CutMix: the rectangle that comes from the neighbour, in pixels.
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// Depends on the arguments alone: the seed, the position of the batch's first sample and the size of its images.
// REQUIRES: rules.is_on(), height and width at least 1.
[[nodiscard]] Mixing draw_mixing(const MixRules& rules, std::uint64_t seed, input::Position first,
                                 std::int64_t height, std::int64_t width);

// The batch with other tensors: images mixed with those of the sample before (before the first is the last), and labels
// float32 (samples, classes) that add up to 1. Throws c10::Error where it allocates. REQUIRES: labels int64 (samples) from 0
// to classes - 1; images at least as large as the rectangle.
[[nodiscard]] DeviceBatch mixed(const DeviceBatch& batch, const Mixing& mixing,
                                std::int64_t classes);

}  // namespace autotuned::trainer
