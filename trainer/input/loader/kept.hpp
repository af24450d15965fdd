// SPDX-License-Identifier: Apache-2.0
// The cache and the index that keep samples from one epoch to the next.
#pragma once

namespace autotuned::input {

class JpegIndex;
class SampleCache;

// The cache and the index of one data set; null: none. Not owned.
struct Kept {
  SampleCache* cache = nullptr;  // for pipelines with the same cached_key()
  JpegIndex* index = nullptr;    // for pipelines with is_indexed()

  friend bool operator==(const Kept&, const Kept&) = default;
};

}  // namespace autotuned::input
