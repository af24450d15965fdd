// SPDX-License-Identifier: Apache-2.0
// Starts the other ranks of a training as processes, and passes the leader's requests on to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/frame.hpp"
#include "base/json.hpp"
#include "base/process/process.hpp"
#include "base/result.hpp"
#include "trainer/ranks/own_rank.hpp"
#include "trainer/ranks/stopped_watch.hpp"

namespace autotuned::trainer {

// Ranks 1 and above. Each is a trainer process in our process group that dies with this process, and that gets the
// session's requests to the leader over a socket pair (docs/trainer-protocol.md), and a tie to it (GpuExchange). A rank
// that is stopped (SIGSTOP) while this process runs is ended. The destructor ends all. One thread, which must live as long as the process.
class Followers {
 public:
  // Called with the progress that a rank reports beside its answers.
  using Told = std::function<void(const Json& progress)>;

  // Starts `ranks - 1` processes of `program`, with this environment and its rank, and waits until all have said hello.
  // ErrorKind::crashed and ErrorKind::timeout name the rank.
  [[nodiscard]] static Result<std::unique_ptr<Followers>> start(
      const std::filesystem::path& program, const std::vector<std::string>& environment, int ranks,
      std::chrono::nanoseconds hello_limit);
  ~Followers();
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  // The descriptors with which another rank begins: the channel of requests, and its end of the tie to this process.
  static constexpr int kRequestsInFollower = 3;
  static constexpr int kTieInFollower = 4;

  // Our ends of the ties, in the order of ranks. Empty from the second call on.
  [[nodiscard]] std::vector<Descriptor> take_ties() { return std::exchange(ties_, {}); }

  // The place of this process among the ranks.
  [[nodiscard]] const OwnRank& place() const { return place_; }

  // Sends the request to all of them. ErrorKind::crashed names a rank that is gone.
  [[nodiscard]] Result<void> send(const Json& request);

  // Tells all of them that the request in progress has been cancelled.
  void cancel();

  // The answer of one rank to the last request.
  struct Answer {
    int rank = 0;
    Result<Json> answer;     // an error of the rank has its kind and text
    bool has_ended = false;  // the process, or it did not answer in time
  };
  // The answers of all, in the order of ranks. Waits at most `patience` in all; a rank that has not answered by then
  // has ErrorKind::timeout.
  [[nodiscard]] std::vector<Answer> answers(std::chrono::nanoseconds patience, const Told& told);
  // Takes the reports that have arrived so far, without waiting.
  void take_reports(const Told& told);

 private:
  struct Follower {
    int rank = 0;
    Process process;
    FrameChannel channel;
    std::optional<Json> early;  // an answer that came while reports were taken
  };

  Followers(Descriptor store, OwnRank place);
  [[nodiscard]] Result<void> start_one(int rank, const std::filesystem::path& program,
                                       std::vector<std::string> environment);
  void watch();
  // `patience`: how long to wait for the process to end after its socket has closed.
  [[nodiscard]] Error ended(Follower& follower, std::chrono::nanoseconds patience) const;
  [[nodiscard]] std::string name_of(const Follower& follower) const;

  Descriptor store_;  // a file in memory, which nobody else on the machine can open
  OwnRank place_;
  std::vector<Follower> followers_;
  std::vector<Descriptor> ties_;
  std::unique_ptr<StoppedWatch> watch_;  // ends before those that it looks at
};

}  // namespace autotuned::trainer
