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

// A set that is asked often how much of a window it has: in time that grows with its logarithm only.
class Stretches {
 public:
  Stretches() = default;
  explicit Stretches(Intervals set);

  [[nodiscard]] const Intervals& intervals() const { return set_; }
  [[nodiscard]] std::int64_t length_ns() const { return length_before_.back(); }
  [[nodiscard]] std::int64_t length_within_ns(Interval window) const;
  // Whether one of them has all of `time`, which is not empty.
  [[nodiscard]] bool hold(Interval time) const {
    return length_within_ns(time) == time.length_ns();
  }
  [[nodiscard]] bool hold(std::int64_t moment_ns) const {
    return hold(Interval{moment_ns, moment_ns + 1});
  }

 private:
  [[nodiscard]] std::int64_t length_until_ns(std::int64_t moment_ns) const;

  Intervals set_;
  std::vector<std::int64_t> length_before_ = {0};  // of those before each, and of all
};

}  // namespace autotuned::analysis
