// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/checkpoint_writer.hpp"

#include <cassert>
#include <chrono>
#include <memory>
#include <system_error>
#include <utility>

#include "trainer/common/guarded.hpp"

namespace autotuned::trainer {

CheckpointWriter::CheckpointWriter(Write write) : write_(std::move(write)) {}

void CheckpointWriter::begin(const std::filesystem::path& file, Checkpoint checkpoint,
                             const std::string& note) {
  assert(!is_busy());
  const auto work = [write = write_, file, note,
                     state = std::make_shared<const Checkpoint>(std::move(checkpoint))] {
    return guarded("checkpoint", [&] { return write(file, *state, note); });
  };
  try {
    outcome_ = std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    outcome_ = std::async(std::launch::deferred, work);
  }
}

bool CheckpointWriter::is_done() const {
  assert(is_busy());
  return outcome_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Result<std::int64_t> CheckpointWriter::finish() {
  assert(is_busy());
  return outcome_.get();
}

}  // namespace autotuned::trainer
