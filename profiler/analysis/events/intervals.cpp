// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/intervals.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

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

Stretches::Stretches(Intervals set) : set_(std::move(set)) {
  length_before_.reserve(set_.size() + 1);
  for (const Interval& one : set_)
    length_before_.push_back(length_before_.back() + one.length_ns());
}

std::int64_t Stretches::length_until_ns(std::int64_t moment_ns) const {
  const auto after = std::ranges::upper_bound(set_, moment_ns, {}, &Interval::start_ns);
  if (after == set_.begin()) return 0;
  const auto last = std::prev(after);
  return length_before_[static_cast<std::size_t>(last - set_.begin())] +
         std::min(moment_ns, last->end_ns) - last->start_ns;
}

std::int64_t Stretches::length_within_ns(Interval window) const {
  return window.start_ns < window.end_ns
             ? length_until_ns(window.end_ns) - length_until_ns(window.start_ns)
             : 0;
}

}  // namespace autotuned::analysis
