// SPDX-License-Identifier: Apache-2.0
// Fills a cache or an index in advance. Part of loader.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>

#include "trainer/input/loader/sample_writer.hpp"

namespace autotuned::input {

// Calls writer.keep() for the samples of `order`, from the one at `first` on and then from the front, in this number of
// threads (fewer if there is no memory for them), with the calling one, which alone asks `is_cancelled`. Ends when all
// are done, after `most`, if it is cancelled, or if memory runs out. Skips samples that cannot be kept.
void fill_kept(const SampleWriter& writer, std::span<const std::uint32_t> order, std::int64_t first,
               int threads, std::chrono::nanoseconds most,
               const std::function<bool()>& is_cancelled);

}  // namespace autotuned::input
