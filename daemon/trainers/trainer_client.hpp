// SPDX-License-Identifier: Apache-2.0
// One trainer process and the conversation with it (docs/trainer-protocol.md).
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/frame.hpp"
#include "base/json.hpp"
#include "base/machine/cgroup.hpp"
#include "base/process/process.hpp"
#include "base/process/resident_memory.hpp"
#include "base/process/stopped_process.hpp"
#include "base/process/trainer_end.hpp"
#include "base/result.hpp"
#include "daemon/trainers/trainer_output.hpp"

namespace autotuned::daemon {

// A source of cancel requests. Once requested, it stays requested.
class CancelSource {
 public:
  CancelSource() = default;
  CancelSource(const CancelSource&) = delete;
  CancelSource& operator=(const CancelSource&) = delete;
  virtual ~CancelSource() = default;

  // A descriptor for poll(), or -1 for none.
  [[nodiscard]] virtual int descriptor() const = 0;
  // Reads what has arrived, without blocking. True from the first request on.
  virtual bool is_requested() = 0;
};

// Never requested: for work that is short, or that nobody waits for.
class NeverCancelled final : public CancelSource {
 public:
  [[nodiscard]] int descriptor() const override { return -1; }
  bool is_requested() override { return false; }
};

struct TrainerSpec {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // complete, NAME=value
  // The log of the trainer's output, bounded (daemon/trainers/trainer_output.hpp). A device such as /dev/null gets all
  // of it. Empty: the trainer shares our own output.
  std::filesystem::path log;
  std::vector<int> inherited_locks;  // of the device, held as long as the trainer lives
  // How long to wait for the hello. LibTorch for CUDA has 3.6 GB of libraries, which a slow disk takes minutes to read
  // the first time; a program that is no trainer never says hello.
  std::chrono::nanoseconds hello_limit = std::chrono::minutes(5);
  // How long the trainer may stay stopped by others (SIGSTOP) while it is waited for, until it is ended; 0: as long as
  // the limit of the hello or of the request.
  std::chrono::nanoseconds stopped_limit{0};
  // Told when the trainer ends before its time, and when it says that there is no memory. May be empty.
  std::function<void(TrainerEnd)> on_end;
  std::string system_root;  // below which the kernel's counters are; empty but in tests
};

// A trainer that has said hello. Requests block until there is an answer, the time limit passes, the trainer ends or a
// cancel arrives, also if the trainer does not read the request. After `crashed`, `timeout`, `internal` and too much
// memory the process has been ended and every further request answers `crashed`. One thread.
class TrainerClient {
 public:
  // `cancel` must outlive the client. Errors: not_found (no such program), crashed (with the last lines
  // of its log), timeout, unsupported (another protocol version).
  [[nodiscard]] static Result<TrainerClient> start(const TrainerSpec& spec, CancelSource& cancel);

  [[nodiscard]] const Json& hello() const { return hello_; }
  [[nodiscard]] bool is_alive() const { return is_alive_; }
  [[nodiscard]] pid_t pid() const { return process_.pid(); }

  // Sends {"request": name, ...fields} and waits. A cancel is passed on; then the trainer has
  // `kCancelGrace` to answer, and the answer counts: `train` answers ok. `limit` is for the whole request, whatever
  // is reported meanwhile, unless there is `is_advance`: progress for which that is true starts it anew.
  Result<Json> request(const std::string& name, Json fields, std::chrono::nanoseconds limit,
                       const std::function<void(const Json&)>& on_progress = {},
                       const std::function<bool(const Json&)>& is_advance = {});

  // Sets the most resident memory that the process and its children may have while a request runs, from the next
  // request on; 0: no limit. A trainer with more is ended: ErrorKind::out_of_memory. How it is counted:
  // base/process/resident_memory.hpp.
  void limit_memory(std::int64_t bytes) { memory_limit_bytes_ = bytes; }
  // The resident memory of the process and its children now, in bytes. Exact only if it is more than `enough_bytes`.
  [[nodiscard]] std::int64_t held_bytes(std::int64_t enough_bytes) {
    return memory_.held_bytes(enough_bytes);
  }

  // Stops the process and the others of its group (SIGSTOP) until the next request, or until it is ended.
  void suspend();
  [[nodiscard]] bool is_suspended() const { return is_suspended_; }
  // Whether the process was stopped or continued (SIGSTOP, SIGCONT), other than by suspend() and by a request, since it
  // was started or since the last call.
  [[nodiscard]] bool was_stopped();

  // Asks it to stop and ends it when it does not.
  void stop();

 private:
  TrainerClient(TrainerOutput output, Process process, FrameChannel channel, CancelSource& cancel,
                const TrainerSpec& spec);

  void resume();
  Result<void> send(const Json& frame, std::chrono::steady_clock::time_point deadline,
                    bool is_cancellable);
  Result<Json> receive_before(std::chrono::steady_clock::time_point deadline, bool is_cancellable);
  Result<Json> wait_for_answer(std::int64_t id, const std::string& name,
                               std::chrono::nanoseconds limit,
                               const std::function<void(const Json&)>& on_progress,
                               const std::function<bool(const Json&)>& is_advance);
  tl::unexpected<Error> end_without_answer(const Error& error, const std::string& name,
                                           std::chrono::nanoseconds limit);
  tl::unexpected<Error> take_error(const Json& error, const std::string& name);
  tl::unexpected<Error> end(ErrorKind kind, const std::string& what);
  // Whether it has been stopped for longer than it may.
  [[nodiscard]] bool is_stopped_too_long() const;
  // What is said of a trainer that ended while it was waited for.
  [[nodiscard]] std::string ended_text(const std::string& when) const;
  void tell_end(ErrorKind kind, bool has_told, const std::optional<ProcessExit>& exit);

  TrainerOutput output_;  // ends after the process
  Process process_;
  ResidentGroup memory_;
  StoppedTime stopped_;
  std::chrono::nanoseconds stopped_limit_;
  FrameChannel channel_;
  CancelSource* cancel_;
  std::filesystem::path log_;
  std::function<void(TrainerEnd)> on_end_;
  OomKills oom_kills_;
  std::int64_t oom_kills_before_ = 0;  // the request
  std::int64_t resident_bytes_ = 0;    // at the last look during it
  std::string request_ = "hello";
  Json hello_;
  std::int64_t next_id_ = 1;
  std::int64_t memory_limit_bytes_ = 0;
  bool is_alive_ = true;
  bool is_suspended_ = false;
};

}  // namespace autotuned::daemon
