// SPDX-License-Identifier: Apache-2.0
// Captures that fail, at every place, against a stand-in that keeps the books of LibTorch's allocators.
#include "trainer/step/graph_capture.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace autotuned::trainer {
namespace {

// Where the first failure is.
enum class Place {
  nowhere,
  begin_device,  // before anything is done
  begin_host,    // the device's pool is in use by then
  begin_stream,  // and the host's
  work,          // an error that the device knows nothing of
  capture,  // the work asked for what no capture records: both the work and the end of the capture fail
  end,      // the work went well, what it left cannot be made a graph
};

// What LibTorch does with a capture that fails.
enum class Version {
  leaves_all,      // 2.11: the end that fails leaves the allocators as they are
  ends_pools,      // later: it ends them, and keeps the memory
  releases_pools,  // later still: the graph gives its memory back in any case
};

class FakeCapture final : public Capture {
 public:
  FakeCapture(Place place, Version version) : place_(place), version_(version) {}

  void begin() override {
    fail_at(Place::begin_device, "no device");
    is_generator_capturing_ = true;
    has_graph_ = true;
    start(device_);
    fail_at(Place::begin_host, "no host memory");
    start(host_);
    fail_at(Place::begin_stream, "no stream");
    is_stream_capturing_ = true;
  }
  void end() override {
    if (!is_stream_capturing_) throw std::runtime_error("not capturing");
    is_stream_capturing_ = false;
    const bool fails = place_ == Place::capture || place_ == Place::end;
    if (!fails || version_ != Version::leaves_all) {
      stop(device_);
      stop(host_);
    }
    if (fails) throw std::runtime_error("the capture is not valid");
    is_generator_capturing_ = false;
    is_whole_ = true;
  }
  void end_device_pool() override { stop(device_); }
  void end_host_pool() override { stop(host_); }
  void destroy_graph() override {
    if (!has_graph_) throw std::runtime_error("no graph");
    has_graph_ = false;
    if (!is_whole_ && version_ != Version::releases_pools) return;
    release(device_);
    release(host_);
  }
  bool holds_pools() override { return device_.users > 0; }
  void release_device_pool() override { release(device_); }
  void release_host_pool() override { release(host_); }
  void restore_generator() override { is_generator_capturing_ = false; }

  void work() const {
    EXPECT_TRUE(is_stream_capturing_);
    fail_at(Place::work, "the work failed");
    fail_at(Place::capture, "not permitted when a stream is capturing");
  }
  // What emptyCache(), the next capture and random numbers need.
  [[nodiscard]] bool is_as_before() const {
    return !is_stream_capturing_ && !is_generator_capturing_ && !has_graph_ && !device_.is_in_use &&
           !host_.is_in_use && device_.users == 0 && host_.users == 0;
  }
  [[nodiscard]] bool has_graph() const { return has_graph_; }
  [[nodiscard]] int most_releases() const { return most_releases_; }

 private:
  struct Pool {
    bool is_in_use = false;
    int users = 0;
    int releases = 0;
  };

  void fail_at(Place place, const char* what) const {
    if (place == place_) throw std::runtime_error(what);
  }
  static void start(Pool& pool) {
    pool.is_in_use = true;
    ++pool.users;
  }
  static void stop(Pool& pool) {
    if (!pool.is_in_use) throw std::runtime_error("not currently recording to it");
    pool.is_in_use = false;
  }
  void release(Pool& pool) {
    most_releases_ = std::max(most_releases_, ++pool.releases);
    if (pool.users == 0) throw std::runtime_error("there is no such pool");
    --pool.users;
  }

  Place place_;
  Version version_;
  Pool device_;
  Pool host_;
  bool is_stream_capturing_ = false;
  bool is_generator_capturing_ = false;
  bool has_graph_ = false;
  bool is_whole_ = false;
  int most_releases_ = 0;
};

constexpr Version kVersions[] = {Version::leaves_all, Version::ends_pools, Version::releases_pools};

TEST(GraphCapture, LeavesNothingBehindWhereverItFails) {
  const std::pair<Place, const char*> places[] = {
      {Place::begin_device, "no device"},
      {Place::begin_host, "no host memory"},
      {Place::begin_stream, "no stream"},
      {Place::work, "the work failed"},
      {Place::capture, "not permitted when a stream is capturing"},
      {Place::end, "the capture is not valid"}};
  for (const Version version : kVersions) {
    for (const auto& [place, expected] : places) {
      SCOPED_TRACE(expected);
      FakeCapture capture(place, version);
      std::string told;
      try {
        capture_or_undo(capture, [&] { capture.work(); });
      } catch (const std::exception& error) {
        told = error.what();
      }
      // The first failure is the reason, not what came of it.
      EXPECT_EQ(told, expected);
      EXPECT_TRUE(capture.is_as_before());
      EXPECT_LE(capture.most_releases(), 1);
    }
  }
}

TEST(GraphCapture, KeepsAGraphThatIsWhole) {
  for (const Version version : kVersions) {
    FakeCapture capture(Place::nowhere, version);
    capture_or_undo(capture, [&] { capture.work(); });
    EXPECT_TRUE(capture.has_graph());
    EXPECT_EQ(capture.most_releases(), 0);
  }
}

}  // namespace
}  // namespace autotuned::trainer
