// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/read_ahead.hpp"

#include <algorithm>
#include <cassert>
#include <exception>

namespace autotuned::input {

using Lock = std::unique_lock<std::mutex>;

Result<std::unique_ptr<ReadAhead>> ReadAhead::create(const Dataset& dataset, SampleOrder order,
                                                     std::int64_t samples_ahead,
                                                     const SampleCache* cache) {
  assert(samples_ahead >= 1);
  try {
    std::unique_ptr<ReadAhead> made(new ReadAhead(dataset, order, samples_ahead, cache));
    made->thread_ =
        std::jthread([one = made.get()](const std::stop_token& stop) { one->work(stop); });
    return made;
  } catch (const std::exception& error) {
    return fail(ErrorKind::out_of_memory,
                std::string("cannot start the thread of input.read_ahead: ") + error.what(),
                "input.read_ahead", "set it to 0");
  }
}

ReadAhead::ReadAhead(const Dataset& dataset, SampleOrder order, std::int64_t samples_ahead,
                     const SampleCache* cache)
    : dataset_(dataset),
      cache_(cache),
      samples_(order.share.samples_of(dataset.size())),
      samples_ahead_(samples_ahead),
      order_(dataset.size(), order.seed, order.is_shuffled, order.share) {}

ReadAhead::~ReadAhead() {
  {
    const Lock lock(mutex_);  // so that the thread does not miss it between its look and its sleep
    thread_.request_stop();
  }
  wake_.notify_all();
}

void ReadAhead::follow(Position position) {
  const Lock lock(mutex_);
  const std::int64_t wanted = position.epoch * samples_ + position.sample;
  next_ = wanted < wanted_ ? wanted : std::max(next_, wanted);
  wanted_ = wanted;
  end_ = wanted + samples_ahead_;
  if (is_running_) wake_.notify_one();
}

void ReadAhead::resume() {
  const Lock lock(mutex_);
  is_running_ = true;
  wake_.notify_one();
}

void ReadAhead::pause() {
  Lock lock(mutex_);
  is_running_ = false;
  idle_.wait(lock, [this] { return !is_busy_; });
}

void ReadAhead::work(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop.stop_requested() || (is_running_ && next_ < end_); });
    if (stop.stop_requested()) return;
    const std::int64_t at = next_++;
    is_busy_ = true;
    lock.unlock();
    const std::int64_t index =
        order_.of_epoch(at / samples_)[static_cast<std::size_t>(at % samples_)];
    const bool is_kept = cache_ != nullptr && cache_->has(dataset_.stored_index(index));
    if (!is_kept) dataset_.will_need(index);
    lock.lock();
    is_busy_ = false;
    if (!is_running_) idle_.notify_one();
  }
}

}  // namespace autotuned::input
