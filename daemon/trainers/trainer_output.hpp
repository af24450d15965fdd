// SPDX-License-Identifier: Apache-2.0
// Writes the output of a trainer to two files of at most 512 KiB each (BoundedLog). It has a pipe and a thread of its
// own, so that a trainer that prints much neither fills the disk nor blocks on a session that waits for it.
#pragma once

#include <filesystem>
#include <thread>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// Used by one thread; the one behind it sees no signals.
class TrainerOutput {
 public:
  TrainerOutput() = default;
  // What is in `file` already moves to the name with .1 at its end: what is there then is of this trainer
  // alone. Errors: the file cannot be written, or there is no pipe or thread to be had.
  [[nodiscard]] static Result<TrainerOutput> start(const std::filesystem::path& file);
  ~TrainerOutput() { finish(); }
  TrainerOutput(TrainerOutput&&) noexcept = default;
  TrainerOutput& operator=(TrainerOutput&& other) noexcept;

  // The descriptor for the trainer's standard output and error.
  [[nodiscard]] int writing_end() const { return writing_.get(); }
  // To be called once the trainer has its copies: the output ends when the last copy closes.
  void close_writing_end() { writing_.reset(); }
  // Reads what is in the pipe. Afterwards the file is complete: a process that still holds the other end,
  // such as one that outlived its trainer, cannot write any more.
  void finish();

 private:
  Descriptor writing_;
  Descriptor going_on_;  // closed: the thread is to come to its end
  std::thread thread_;
};

}  // namespace autotuned::daemon
