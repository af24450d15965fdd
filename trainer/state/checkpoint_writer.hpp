// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint in a thread of its own while the training goes on. Private to trainer/: LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <string>

#include "base/result.hpp"
#include "trainer/state/checkpoint.hpp"

namespace autotuned::trainer {

// Writes one checkpoint at a time and owns it meanwhile. The earlier file stays intact until the new one replaces it.
// One thread calls everything.
class CheckpointWriter {
 public:
  // write_checkpoint(), or a replacement in tests. May throw.
  using Write = std::function<Result<std::int64_t>(const std::filesystem::path&, const Checkpoint&,
                                                   const std::string&)>;
  explicit CheckpointWriter(Write write = write_checkpoint);
  // Waits until the checkpoint is written.
  ~CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Begins to write in a thread of its own; if no thread can be started, finish() writes. REQUIRES: !is_busy().
  void begin(const std::filesystem::path& file, Checkpoint checkpoint, const std::string& note);
  // Whether a write was begun and not yet finished.
  [[nodiscard]] bool is_busy() const { return outcome_.valid(); }
  // Whether finish() would return at once. REQUIRES: is_busy().
  [[nodiscard]] bool is_done() const;
  // Waits for the end, and returns the number of bytes written. REQUIRES: is_busy().
  [[nodiscard]] Result<std::int64_t> finish();

 private:
  Write write_;
  std::future<Result<std::int64_t>> outcome_;  // its destructor waits
};

}  // namespace autotuned::trainer
