// SPDX-License-Identifier: Apache-2.0
// How much host memory a feed's batches take, and how much of it may be page-locked. Private to trainer/.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "trainer/feed/feed.hpp"

namespace autotuned::trainer {

// The number of batches on the host at one time: those that workers load ahead, the one that the step uses, and one
// more if copies run ahead.
[[nodiscard]] int host_batches(const FeedSettings& settings, bool is_on_gpu);

// Below, `first` is the pipeline with which the feed was created.

// The form of the pipeline that these settings ask for.
[[nodiscard]] const input::Pipeline& pipeline_of(const FeedSettings& settings,
                                                 const input::Pipeline& first);

// Whether batches hold bytes, which are converted to numbers after the transfer: by a table or by the pipeline's form.
[[nodiscard]] bool sends_bytes(const FeedSettings& settings, const input::Pipeline& first);

// The bytes of a sample that are transferred: the image and its target.
[[nodiscard]] std::int64_t sample_bytes(const FeedSettings& settings, const input::Pipeline& first,
                                        const input::TargetType& target = {});

// The page-locked blocks of a ring: images and targets of each batch. LibTorch rounds sizes up to powers of two.
struct PinnedBlocks {
  std::int64_t batches = 0;
  std::int64_t image_bytes = 0;   // of a batch
  std::int64_t target_bytes = 0;  // of a batch

  [[nodiscard]] std::int64_t bytes() const { return batches * (image_bytes + target_bytes); }
  friend bool operator==(const PinnedBlocks&, const PinnedBlocks&) = default;
};
// Zeros if none is page-locked.
[[nodiscard]] PinnedBlocks pinned_blocks(const FeedSettings& settings, const input::Pipeline& first,
                                         bool is_on_gpu, const input::TargetType& target = {});

// The most that may be page-locked, a quarter of the memory that the trainer may use; 0: not known.
[[nodiscard]] std::int64_t most_pinned_bytes(const FeedSettings& settings);

// ErrorKind::out_of_memory: more than a quarter of the memory that the trainer may use would be page-locked. The system
// cannot reclaim such memory. To be called before it is allocated.
[[nodiscard]] Result<void> check_pinned_bytes(const FeedSettings& settings,
                                              const input::Pipeline& first, bool is_on_gpu,
                                              const input::TargetType& target = {});

}  // namespace autotuned::trainer
