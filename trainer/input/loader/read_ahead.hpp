// SPDX-License-Identifier: Apache-2.0
// Has the system read the files of coming samples while the loader is busy with those before.
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

// A thread that calls Dataset::will_need() once for each sample, in the order in which they come, up to so
// many samples ahead of a position that moves on. It changes nothing that is read, only when.
//
// One thread calls everything.
class ReadAhead {
 public:
  // Paused, with nothing to do until follow(). `dataset` and `cache`, in which samples need no reading (null:
  // there is none), must outlive it. ErrorKind::out_of_memory: the thread cannot be started.
  // REQUIRES: samples_ahead >= 1.
  [[nodiscard]] static Result<std::unique_ptr<ReadAhead>> create(const Dataset& dataset,
                                                                 SampleOrder order,
                                                                 std::int64_t samples_ahead,
                                                                 const SampleCache* cache);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The next sample that is wanted. Going back starts over from there.
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
  const std::int64_t samples_;
  const std::int64_t samples_ahead_;
  EpochOrder order_;  // of the thread

  std::mutex mutex_;  // guards all below but the thread
  std::condition_variable wake_;
  std::condition_variable idle_;
  bool is_running_ = false;
  bool is_busy_ = false;
  // Counted over all epochs, each as if no sample of it were dropped: at an epoch's end up to one batch is
  // read in vain.
  std::int64_t wanted_ = 0;
  std::int64_t next_ = 0;
  std::int64_t end_ = 0;

  std::jthread thread_;
};

}  // namespace autotuned::input
