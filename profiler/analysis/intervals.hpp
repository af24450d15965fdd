// SPDX-License-Identifier: Apache-2.0
// Sets of moments: sorted stretches of time that neither overlap nor touch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace autotuned::analysis {

// [start_ns, end_ns).
struct Interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  [[nodiscard]] std::int64_t length_ns() const { return end_ns - start_ns; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

// The length of what both have; 0 where they do not meet.
[[nodiscard]] inline std::int64_t overlap_ns(Interval a, Interval b) {
  return std::max<std::int64_t>(0, std::min(a.end_ns, b.end_ns) - std::max(a.start_ns, b.start_ns));
}

// Of the functions below, all but merged() take and give sets: sorted, disjoint, nothing empty.
using Intervals = std::vector<Interval>;

// The set of moments in any of `stretches`, which may be in any order and overlap.
[[nodiscard]] Intervals merged(Intervals stretches);
[[nodiscard]] Intervals intersection(const Intervals& a, const Intervals& b);
[[nodiscard]] Intervals difference(const Intervals& a, const Intervals& b);
[[nodiscard]] std::int64_t length_ns(const Intervals& set);
// The length of what lies within `window`, in time that grows with the logarithm of the set and with
// what is inside.
[[nodiscard]] std::int64_t length_within_ns(const Intervals& set, Interval window);

}  // namespace autotuned::analysis
