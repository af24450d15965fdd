// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint beside the training. Private to trainer/: LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <string>

#include "base/result.hpp"
#include "trainer/state/checkpoint.hpp"

namespace autotuned::trainer {

// One at a time. What is being written is in the writer's hands alone; the file before stays whole until the
// new one takes its place. One thread calls everything.
class CheckpointWriter {
 public:
  // write_checkpoint(), or what a test puts in its place. May throw.
  using Write = std::function<Result<std::int64_t>(const std::filesystem::path&, const Checkpoint&,
                                                   const std::string&)>;
  explicit CheckpointWriter(Write write = write_checkpoint);
  // Waits for what is being written.
  ~CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Begins to write in a thread of its own; where the system gives none, finish() writes.
  // REQUIRES: !is_busy().
  void begin(const std::filesystem::path& file, Checkpoint checkpoint, const std::string& note);
  // Whether one was begun and not yet finished.
  [[nodiscard]] bool is_busy() const { return outcome_.valid(); }
  // Whether finish() would return at once. REQUIRES: is_busy().
  [[nodiscard]] bool is_done() const;
  // Waits; the bytes written. REQUIRES: is_busy().
  [[nodiscard]] Result<std::int64_t> finish();

 private:
  Write write_;
  std::future<Result<std::int64_t>> outcome_;  // its destructor waits
};

}  // namespace autotuned::trainer
