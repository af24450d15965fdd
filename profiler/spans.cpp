// SPDX-License-Identifier: Apache-2.0
#include "profiler/spans.hpp"

#include <algorithm>
#include <cassert>
#include <ctime>

#include "profiler/scopes.hpp"

namespace autotuned::profiler {

thread_local constinit SpanRecorder* SpanRecorder::current_ = nullptr;

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

SpanRecorder::SpanRecorder(std::size_t expected_spans, ScopeListener* listener)
    : listener_(listener) {
  assert(current_ == nullptr);
  records_.reserve(expected_spans);
  current_ = this;
}

SpanRecorder::~SpanRecorder() {
  stop();
}

void SpanRecorder::stop() {
  assert(open_ < 0);
  if (current_ == this) current_ = nullptr;
}

std::ptrdiff_t SpanRecorder::begin(const char* name) {
  records_.push_back({.name = name, .parent = open_});
  open_ = static_cast<std::ptrdiff_t>(records_.size()) - 1;
  if (listener_ != nullptr) listener_->enter_span(scope_of_span(records_.size() - 1));
  records_.back().start_ns = now_ns();  // last, so that the bookkeeping is outside of the span
  return open_;
}

void SpanRecorder::end(std::ptrdiff_t index) {
  const std::int64_t time = now_ns();
  assert(index == open_);
  SpanRecord& record = records_[static_cast<std::size_t>(index)];
  record.end_ns = time;
  open_ = record.parent;
  if (listener_ != nullptr) listener_->leave_span();
}

std::vector<SpanTotal> totals_of(const std::vector<SpanRecord>& records) {
  std::vector<SpanTotal> totals;
  const auto total_of = [&totals](std::string_view name) -> SpanTotal& {
    const auto found = std::ranges::find(totals, name, &SpanTotal::name);
    if (found != totals.end()) return *found;
    return totals.emplace_back(SpanTotal{.name = std::string(name)});
  };
  for (const SpanRecord& record : records) {
    const std::int64_t duration = record.end_ns - record.start_ns;
    SpanTotal& total = total_of(record.name);
    total.count += 1;
    total.total_ns += duration;
    total.self_ns += duration;
    if (record.parent >= 0) {
      total_of(records[static_cast<std::size_t>(record.parent)].name).self_ns -= duration;
    }
  }
  return totals;
}

const SpanTotal* find_total(const std::vector<SpanTotal>& totals, std::string_view name) {
  const auto found = std::ranges::find(totals, name, &SpanTotal::name);
  return found == totals.end() ? nullptr : &*found;
}

}  // namespace autotuned::profiler
