// SPDX-License-Identifier: Apache-2.0
// Records what this process does with its NVIDIA GPUs. This header needs no CUPTI types.
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
  std::int64_t most_records = 2'000'000;  // for one take(); further records are lost and counted
  std::chrono::milliseconds flush_limit{10'000};  // time for CUPTI to return its buffers
};

// CUPTI's one subscriber in this process. It records between enable() and disable(), any number of times.
// Recording slows the process down, so nothing is timed during it. CUPTI is never finalized: a process that
// used it should end, and not go on to measure. Called by one thread; the functions of ScopeListener by any.
// It must outlive all scopes that were reported to it.
class CuptiCollector final : public ScopeListener {
 public:
  // ErrorKind::busy if another tool holds CUPTI; unsupported if there is no driver or CUPTI refuses. `api`
  // must live as long as the process.
  [[nodiscard]] static Result<std::unique_ptr<CuptiCollector>> open(
      CuptiApi& api, const CuptiOptions& options = {});
  ~CuptiCollector() override;
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  // Turns the kinds of records on or off. The first enable() takes tens of milliseconds, so call it during a
  // warm-up.
  [[nodiscard]] Result<void> enable();
  void disable();

  // Drops everything recorded so far. REQUIRES: the devices are idle.
  void restart();
  // Returns everything recorded since restart() or the last take(). REQUIRES: the devices are idle.
  [[nodiscard]] DeviceTimeline take();

  // Returns the problems of the recording, one sentence each, except losses (DeviceLosses).
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
