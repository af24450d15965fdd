// SPDX-License-Identifier: Apache-2.0
// The queue on disk: a few files per job in one folder, each replaced as a whole and synced, so that kill -9
// or a power cut leaves the state before or after a change. docs/daemon.md lists the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "daemon/queue/protocol.hpp"
#include "daemon/queue/queue.hpp"

namespace autotuned::daemon {

// $XDG_STATE_HOME/autotuned/daemon, else ~/.local/state/autotuned/daemon.
[[nodiscard]] std::filesystem::path default_store_folder();

class JobStore {
 public:
  // Makes the folder (0700) and locks it: two daemons never write to one queue. ErrorKind::busy when
  // another one has it, permission when it is not a folder of this user alone.
  [[nodiscard]] static Result<JobStore> open(const std::filesystem::path& folder);

  struct Loaded {
    std::vector<QueuedRun> jobs;  // by id
    // What cannot be read; such files are set aside with .bad at their names' end.
    std::vector<Error> problems;
    std::int64_t highest_id = 0;  // the highest that was ever given, as far as the files tell
  };
  // Reads all jobs, and removes incomplete ones that a crash left: their submitters got no acknowledgement. If a file
  // cannot be read for another reason than its content (lack of memory, the disk), returns an error and changes
  // nothing: the next try may succeed.
  [[nodiscard]] Result<Loaded> load() const;

  // Durable when it returns. Store the submission first: the job exists once put(QueuedRun) has succeeded.
  [[nodiscard]] Result<void> put(const Submission& submission, std::int64_t id) const;
  [[nodiscard]] Result<void> put(const QueuedRun& job) const;
  [[nodiscard]] Result<Submission> submission(std::int64_t id) const;
  void forget(std::int64_t id) const;

  [[nodiscard]] std::filesystem::path events(std::int64_t id) const { return file(id, "events"); }
  [[nodiscard]] std::filesystem::path output(std::int64_t id) const { return file(id, "log"); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  JobStore(std::filesystem::path folder, Descriptor lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}
  [[nodiscard]] std::filesystem::path file(std::int64_t id, const char* what) const;

  std::filesystem::path folder_;
  Descriptor lock_;
};

}  // namespace autotuned::daemon
