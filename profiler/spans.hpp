// SPDX-License-Identifier: Apache-2.0
// Spans: named stretches of time on one thread, recorded only during a profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autotuned::profiler {

// The spans of a training step. `step` contains all others except the last three.
namespace span {
inline constexpr const char* kStep = "step";
inline constexpr const char* kDataWait = "data_wait";
inline constexpr const char* kTransfer = "transfer";
inline constexpr const char* kZeroGrad = "zero_grad";
inline constexpr const char* kForward = "forward";
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kBackward = "backward";
inline constexpr const char* kOptimizer = "optimizer";
inline constexpr const char* kLossReading = "loss_reading";
// Between steps: the training waits for a checkpoint.
inline constexpr const char* kCheckpoint = "checkpoint";
// Inside of the checkpoint.
inline constexpr const char* kCheckpointCopy = "checkpoint_copy";
inline constexpr const char* kCheckpointWrite = "checkpoint_write";
}  // namespace span

class ScopeListener;

// A recorded span.
struct SpanRecord {
  const char* name = nullptr;  // static storage
  std::int64_t start_ns = 0;   // CLOCK_MONOTONIC
  std::int64_t end_ns = 0;
  std::ptrdiff_t parent = -1;  // index of the enclosing record; -1 for none
};

// Collects the spans of the thread that constructed it, from construction to stop() or destruction. At most
// one for each thread at a time. `listener`, which may be null, gets the scope_of_span() of each span, by its index. REQUIRES: no span is
// open at either end.
class SpanRecorder {
 public:
  explicit SpanRecorder(std::size_t expected_spans = 1024, ScopeListener* listener = nullptr);
  ~SpanRecorder();
  SpanRecorder(const SpanRecorder&) = delete;
  SpanRecorder& operator=(const SpanRecorder&) = delete;

  void stop();
  [[nodiscard]] const std::vector<SpanRecord>& records() const { return records_; }

  // The recorder of the calling thread; null if it does not record.
  [[nodiscard]] static SpanRecorder* current() { return current_; }
  // The name of the innermost open span; empty outside of all spans.
  [[nodiscard]] const char* open_span() const {
    return open_ < 0 ? "" : records_[static_cast<std::size_t>(open_)].name;
  }

 private:
  friend class Span;
  std::ptrdiff_t begin(const char* name);
  void end(std::ptrdiff_t index);

  static thread_local constinit SpanRecorder* current_;
  std::vector<SpanRecord> records_;
  std::ptrdiff_t open_ = -1;
  ScopeListener* listener_;
};

// Records its own lifetime. Without a recorder it costs one branch on a thread-local pointer.
class Span {
 public:
  explicit Span(const char* name) : recorder_(SpanRecorder::current()) {
    if (recorder_ != nullptr) [[unlikely]]
      index_ = recorder_->begin(name);
  }
  ~Span() {
    if (recorder_ != nullptr) [[unlikely]]
      recorder_->end(index_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  SpanRecorder* recorder_;
  std::ptrdiff_t index_ = 0;
};

// The sums of all spans of one name.
struct SpanTotal {
  std::string name;
  std::int64_t count = 0;
  std::int64_t total_ns = 0;
  std::int64_t self_ns = 0;  // without the spans inside

  friend bool operator==(const SpanTotal&, const SpanTotal&) = default;
};

// Returns the sums by name, in the order of the first span of each name.
[[nodiscard]] std::vector<SpanTotal> totals_of(const std::vector<SpanRecord>& records);
// Returns the sums of that name; null if no such span was recorded.
[[nodiscard]] const SpanTotal* find_total(const std::vector<SpanTotal>& totals,
                                          std::string_view name);

// Returns the time of CLOCK_MONOTONIC, the clock of spans, blocks and the trainer protocol.
[[nodiscard]] std::int64_t now_ns();

}  // namespace autotuned::profiler
