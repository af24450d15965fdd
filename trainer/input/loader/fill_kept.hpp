// SPDX-License-Identifier: Apache-2.0
// Fills a cache or an index ahead of the samples' turn. Part of loader.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>

#include "trainer/input/loader/sample_writer.hpp"

namespace autotuned::input {

// Calls writer.keep() for the samples of `order`, from the one at `first` on and then from the front, in so many
// threads (fewer where there is no room for them), the calling one among them, which alone asks `is_cancelled`.
// Ends when all are done, `most` is over or it is cancelled, and where memory runs out. Samples that cannot be kept are
// passed over.
void fill_kept(const SampleWriter& writer, std::span<const std::uint32_t> order, std::int64_t first,
               int threads, std::chrono::nanoseconds most,
               const std::function<bool()>& is_cancelled);

}  // namespace autotuned::input
