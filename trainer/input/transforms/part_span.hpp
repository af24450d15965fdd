// SPDX-License-Identifier: Apache-2.0
// When a thread worked on which part of the input pipeline.
#pragma once

#include <cstdint>
#include <vector>

namespace autotuned::input {

struct PartSpan {
  static constexpr int kReading = -1;  // getting what is stored
  static constexpr int kChunk = -2;    // samples one after the other: holds the others

  int part = 0;               // index into Pipeline::parts(), or one of these
  std::int64_t thread = 0;    // the system's number
  std::int64_t start_ns = 0;  // CLOCK_MONOTONIC
  std::int64_t end_ns = 0;
};

struct PartSpans {
  std::vector<PartSpan> spans;
  std::int64_t lost = 0;  // for which there was no room
};

}  // namespace autotuned::input
