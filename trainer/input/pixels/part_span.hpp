// SPDX-License-Identifier: Apache-2.0
// The times at which threads worked on parts of the input pipeline.
#pragma once

#include <cstdint>
#include <vector>

namespace autotuned::input {

struct PartSpan {
  static constexpr int kReading = -1;  // reading stored bytes
  static constexpr int kChunk = -2;    // a chunk of samples; contains the other spans

  int part = 0;               // index into Pipeline::parts(), or one of these
  std::int64_t thread = 0;    // the system's number
  std::int64_t start_ns = 0;  // CLOCK_MONOTONIC
  std::int64_t end_ns = 0;
};

struct PartSpans {
  std::vector<PartSpan> spans;
  std::int64_t lost = 0;  // spans without room
};

}  // namespace autotuned::input
