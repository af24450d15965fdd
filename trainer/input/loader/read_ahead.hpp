// SPDX-License-Identifier: Apache-2.0
// Lets the system read the files of coming samples in advance.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "base/result.hpp"
#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/common/sample_cache.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/loader/loader.hpp"

namespace autotuned::input {

// A thread that calls Dataset::will_need() once for each sample, in their order, up to a number of samples ahead of a
// moving position. It changes only the time at which files are read.
//
// One thread calls everything.
class ReadAhead {
 public:
  // Paused until follow(). Samples in `cache` need no reading (null: no cache). `dataset` and `cache` must outlive
  // it. ErrorKind::out_of_memory: the thread cannot be started.
  // REQUIRES: samples_ahead >= 1.
  [[nodiscard]] static Result<std::unique_ptr<ReadAhead>> create(const Dataset& dataset,
                                                                 SampleOrder order,
                                                                 std::int64_t samples_ahead,
                                                                 const SampleCache* cache);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Moves the position to the next sample of the loader. An earlier position starts over from there.
  void follow(Position position);
  void resume();
  // Returns when the thread is idle.
  void pause();

 private:
  ReadAhead(const Dataset& dataset, SampleOrder order, std::int64_t samples_ahead,
            const SampleCache* cache);
  void work(const std::stop_token& stop);

  const Dataset& dataset_;
  const SampleCache* cache_;
  const std::int64_t samples_;  // of an epoch
  const std::int64_t samples_ahead_;
  EpochOrder order_;  // of the thread

  std::mutex mutex_;  // guards all below but the thread
  std::condition_variable wake_;
  std::condition_variable idle_;
  bool is_running_ = false;
  bool is_busy_ = false;
  // Counted over all epochs without dropped samples: at the end of an epoch up to one batch is read for nothing.
  std::int64_t wanted_ = 0;
  std::int64_t next_ = 0;
  std::int64_t end_ = 0;

  std::jthread thread_;
};

}  // namespace autotuned::input
