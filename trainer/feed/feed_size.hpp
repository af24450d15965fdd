// SPDX-License-Identifier: Apache-2.0
// How much host memory a feed's batches take, and how much of it may be page-locked. Private to trainer/.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "trainer/feed/feed.hpp"

namespace autotuned::trainer {

// Batches that lie on the host at once: those that workers may be ahead, the one in the step's hands, and one
// more where copies run ahead.
[[nodiscard]] int host_batches(const FeedSettings& settings, bool is_on_gpu);

// `first` is the pipeline that the feed was created with, from here on.

// The form of it that these settings ask for.
[[nodiscard]] const input::Pipeline& pipeline_of(const FeedSettings& settings,
                                                 const input::Pipeline& first);

// Whether batches are of bytes, which become numbers behind the transfer: by a table or by the pipeline's form.
[[nodiscard]] bool sends_bytes(const FeedSettings& settings, const input::Pipeline& first);

// What travels of a sample: the image and its target.
[[nodiscard]] std::int64_t sample_bytes(const FeedSettings& settings, const input::Pipeline& first,
                                        const input::TargetType& target = {});

// What page-locking the batches takes: LibTorch rounds each block up to a power of two. 0 where none is
// page-locked.
[[nodiscard]] std::int64_t pinned_bytes(const FeedSettings& settings, const input::Pipeline& first,
                                        bool is_on_gpu, const input::TargetType& target = {});

// Page-locked memory is out of the system's hands: a quarter of what the trainer may use is the most.
// ErrorKind::out_of_memory beyond that, before anything is allocated.
[[nodiscard]] Result<void> check_pinned_bytes(const FeedSettings& settings,
                                              const input::Pipeline& first, bool is_on_gpu,
                                              const input::TargetType& target = {});

}  // namespace autotuned::trainer
