// SPDX-License-Identifier: Apache-2.0
// Sets of moments: sorted stretches of time that neither overlap nor touch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace autotuned::analysis {

// The stretch of time [start_ns, end_ns).
struct Interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  [[nodiscard]] std::int64_t length_ns() const { return end_ns - start_ns; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

// The length of the intersection; 0 if it is empty.
[[nodiscard]] inline std::int64_t overlap_ns(Interval a, Interval b) {
  return std::max<std::int64_t>(0, std::min(a.end_ns, b.end_ns) - std::max(a.start_ns, b.start_ns));
}

// A set of moments. All functions below except merged() take and return sets: sorted, disjoint, without empty
// intervals.
using Intervals = std::vector<Interval>;

// The set of moments in any of `stretches`, which may be in any order and overlap.
[[nodiscard]] Intervals merged(Intervals stretches);
[[nodiscard]] Intervals intersection(const Intervals& a, const Intervals& b);
[[nodiscard]] Intervals difference(const Intervals& a, const Intervals& b);
[[nodiscard]] std::int64_t length_ns(const Intervals& set);
// Returns the length of the part of `set` within `window`. Takes time logarithmic in the size of the set, plus the number of
// intervals within `window`.
[[nodiscard]] std::int64_t length_within_ns(const Intervals& set, Interval window);

// A set that answers questions about the length within a window, each in logarithmic time.
class Stretches {
 public:
  Stretches() = default;
  explicit Stretches(Intervals set);

  [[nodiscard]] const Intervals& intervals() const { return set_; }
  [[nodiscard]] std::int64_t length_ns() const { return length_before_.back(); }
  [[nodiscard]] std::int64_t length_within_ns(Interval window) const;
  // Whether one stretch contains all of `time`. REQUIRES: `time` is not empty.
  [[nodiscard]] bool hold(Interval time) const {
    return length_within_ns(time) == time.length_ns();
  }
  [[nodiscard]] bool hold(std::int64_t moment_ns) const {
    return hold(Interval{moment_ns, moment_ns + 1});
  }

 private:
  [[nodiscard]] std::int64_t length_until_ns(std::int64_t moment_ns) const;

  Intervals set_;
  // The total length of the stretches before each one, then of all.
  std::vector<std::int64_t> length_before_ = {0};
};

}  // namespace autotuned::analysis
