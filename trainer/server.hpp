// SPDX-License-Identifier: Apache-2.0
// Answers the requests of docs/trainer-protocol.md, and passes them on to other ranks. No LibTorch here.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/frame.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "trainer/common/device.hpp"
#include "trainer/job/job.hpp"
#include "trainer/ranks/followers.hpp"
#include "trainer/ranks/own_rank.hpp"
#include "trainer/ranks/rank_group.hpp"

namespace autotuned::trainer {

// The member with a rank's digest of its parameters, in the answers of several ranks to `train` and `check_steps`.
inline constexpr const char* kParameterDigest = "parameters_sha256";

// Whether this progress has information that only this rank has, unlike the progress of the training.
[[nodiscard]] bool is_of_any_rank(const Json& progress);

// One session's trainer, or another rank of it. One thread.
class Server {
 public:
  // `place`: set if this process is another rank than the first; the channel and the tie then lead to the first.
  Server(FrameChannel channel, Machine machine, Devices devices,
         std::optional<OwnRank> place = std::nullopt, Descriptor tie = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Says hello, then answers until `stop` (true) or until the other side is gone (false).
  [[nodiscard]] bool serve();

 private:
  void send(const Json& frame);
  [[nodiscard]] Result<Json> receive();
  void answer(const Json& request);
  [[nodiscard]] Result<Json> handle(const std::string& name, const Json& request);
  // Handles the request on all ranks. Returns the answer for all of them, or the error of the rank that failed first.
  [[nodiscard]] Result<Json> handle_on_all(const std::string& name, const Json& request);
  [[nodiscard]] Result<Json> handle_here(const std::string& name, const Json& request);
  // Handles the request as one of several ranks. After an error that not all ranks have, it has left the group.
  [[nodiscard]] Result<Json> handle_together(const std::string& name, const Json& request);
  [[nodiscard]] Result<Json> load_together(const Json& request);
  // What this rank needs if the job of all ranks is on GPUs.
  [[nodiscard]] Result<std::optional<GpuExchange>> gpu_exchange(const Json& request);
  [[nodiscard]] Result<Json> load_here(const Json& request);
  [[nodiscard]] Result<void> start_ranks(int ranks);
  // Leaves the group: unloads the job and ends the other ranks.
  void leave_ranks();
  // Returns a function that sends the reports of another rank, if they concern the session, as progress of that
  // request.
  [[nodiscard]] Followers::Told pass_on(const Json& id);
  // Whether the session has asked to end the request in progress, or is gone.
  [[nodiscard]] bool is_cancelled();

  [[nodiscard]] Result<Json> load(const Json& request);
  [[nodiscard]] Result<Json> check(const Json& request);
  [[nodiscard]] Result<Json> predict(const Json& request);
  [[nodiscard]] Result<Json> prepare(const Json& request);
  [[nodiscard]] Result<Json> run(const Json& request);
  [[nodiscard]] Result<Json> check_steps(const Json& request);
  [[nodiscard]] Result<Json> profile(const Json& request);
  [[nodiscard]] Result<Json> trace(const Json& request);
  [[nodiscard]] Result<Json> compare(const Json& request);
  [[nodiscard]] Result<Json> restore(const std::string& name, const Json& request);
  [[nodiscard]] Result<Json> train(const Json& request);
  // With several ranks: adds the digest of this rank's parameters.
  [[nodiscard]] Result<void> tell_parameters(Json& answer);
  [[nodiscard]] Result<Json> handle_checkpoint(const std::string& name, const Json& request);

  FrameChannel channel_;
  Machine machine_;
  Devices devices_;
  std::optional<OwnRank> place_;          // nothing: the session's own trainer
  std::vector<Descriptor> ties_;          // of another rank than the first, until it joins a group
  std::unique_ptr<Followers> followers_;  // null: no other rank
  std::unique_ptr<RankGroup> group_;      // outlives the job
  std::unique_ptr<Job> job_;
  Json request_id_;           // of the one in progress
  std::deque<Json> pending_;  // received while a request was in progress
  bool is_gone_ = false;      // the other side
  bool is_stopped_ = false;
  bool has_traced_gpu_ = false;  // or tried to: both leave the process slower
};

}  // namespace autotuned::trainer
