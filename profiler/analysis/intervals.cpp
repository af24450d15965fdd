// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/intervals.hpp"

#include <algorithm>

namespace autotuned::analysis {

Intervals merged(Intervals stretches) {
  std::erase_if(stretches, [](const Interval& one) { return one.end_ns <= one.start_ns; });
  std::ranges::sort(stretches, {}, &Interval::start_ns);
  Intervals set;
  for (const Interval& one : stretches) {
    if (!set.empty() && one.start_ns <= set.back().end_ns) {
      set.back().end_ns = std::max(set.back().end_ns, one.end_ns);
    } else {
      set.push_back(one);
    }
  }
  return set;
}

Intervals intersection(const Intervals& a, const Intervals& b) {
  Intervals common;
  auto left = a.begin();
  auto right = b.begin();
  while (left != a.end() && right != b.end()) {
    const Interval both{std::max(left->start_ns, right->start_ns),
                        std::min(left->end_ns, right->end_ns)};
    if (both.start_ns < both.end_ns) common.push_back(both);
    if (left->end_ns < right->end_ns) {
      ++left;
    } else {
      ++right;
    }
  }
  return common;
}

Intervals difference(const Intervals& a, const Intervals& b) {
  Intervals rest;
  auto cut = b.begin();
  for (Interval one : a) {
    while (cut != b.end() && cut->end_ns <= one.start_ns)
      ++cut;
    // The last cut may reach into the next stretch of `a`.
    for (auto next = cut; next != b.end() && next->start_ns < one.end_ns; ++next) {
      if (next->start_ns > one.start_ns) rest.push_back({one.start_ns, next->start_ns});
      one.start_ns = next->end_ns;
      cut = next;
    }
    if (one.start_ns < one.end_ns) rest.push_back(one);
  }
  return rest;
}

std::int64_t length_ns(const Intervals& set) {
  std::int64_t length = 0;
  for (const Interval& one : set)
    length += one.length_ns();
  return length;
}

std::int64_t length_within_ns(const Intervals& set, Interval window) {
  std::int64_t length = 0;
  auto one = std::ranges::upper_bound(set, window.start_ns, {}, &Interval::end_ns);
  for (; one != set.end() && one->start_ns < window.end_ns; ++one) {
    length += std::min(one->end_ns, window.end_ns) - std::max(one->start_ns, window.start_ns);
  }
  return length;
}

}  // namespace autotuned::analysis
