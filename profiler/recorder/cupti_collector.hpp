// SPDX-License-Identifier: Apache-2.0
// Records what this process does with its NVIDIA GPUs. Without CUPTI's types.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "profiler/recorder/timeline_device.hpp"
#include "profiler/scopes.hpp"

namespace autotuned::profiler {

class CuptiApi;

struct CuptiOptions {
  // 64 MiB. A launch takes some 300 bytes, so that one buffer holds about 7,000.
  std::size_t buffers = 32;
  std::size_t buffer_bytes = 2U << 20U;   // a multiple of 4 KiB
  std::int64_t most_records = 2'000'000;  // of one take(); beyond, they are counted and lost
  std::chrono::milliseconds flush_limit{10'000};  // for CUPTI to hand over what it has
};

// CUPTI's one subscriber in this process. It works between enable() and disable(), any number of times;
// what it costs meanwhile is no small thing, so nothing is timed then. CUPTI itself is never finalized:
// a process that used it should end rather than go on to measure. Called by one thread; the scopes are
// told by any. It must outlive all scopes that it was told of.
class CuptiCollector final : public ScopeListener {
 public:
  // ErrorKind::busy where another tool holds CUPTI, unsupported where there is no driver or CUPTI refuses.
  // The api must live as long as the process does.
  [[nodiscard]] static Result<std::unique_ptr<CuptiCollector>> open(
      CuptiApi& api, const CuptiOptions& options = {});
  ~CuptiCollector() override;
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  // Kinds of record on or off. The first time costs tens of milliseconds, so it is for a warm-up.
  [[nodiscard]] Result<void> enable();
  void disable();

  // Forgets what was recorded so far. REQUIRES: the devices have nothing to do.
  void restart();
  // What was recorded since. REQUIRES: the devices have nothing to do.
  [[nodiscard]] DeviceTimeline take();

  // What is not as it should be, one sentence each, for people. Losses are not among them.
  [[nodiscard]] std::vector<std::string> notes() const;

  void enter_operator(ScopeId operation) noexcept override;
  void leave_operator() noexcept override;
  void enter_span(ScopeId span) noexcept override;
  void leave_span() noexcept override;

 private:
  struct State;
  explicit CuptiCollector(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace autotuned::profiler
