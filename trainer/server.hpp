// SPDX-License-Identifier: Apache-2.0
// Answers the requests of docs/trainer-protocol.md. No LibTorch here.
#pragma once

#include <deque>
#include <memory>

#include "base/frame.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "trainer/common/device.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {

// One session's trainer. One thread.
class Server {
 public:
  Server(FrameChannel channel, Machine machine, Devices devices);
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
  // Whether the session has asked to end the request in progress, or is gone.
  [[nodiscard]] bool is_cancelled();

  [[nodiscard]] Result<Json> load(const Json& request);
  [[nodiscard]] Result<Json> check(const Json& request);
  [[nodiscard]] Result<Json> prepare(const Json& request);
  [[nodiscard]] Result<Json> run(const Json& request);
  [[nodiscard]] Result<Json> check_steps(const Json& request);
  [[nodiscard]] Result<Json> profile(const Json& request);
  [[nodiscard]] Result<Json> trace(const Json& request);
  [[nodiscard]] Result<Json> compare(const Json& request);
  [[nodiscard]] Result<Json> restore(const std::string& name, const Json& request);
  [[nodiscard]] Result<Json> train(const Json& request);
  [[nodiscard]] Result<Json> handle_checkpoint(const std::string& name, const Json& request);

  FrameChannel channel_;
  Machine machine_;
  Devices devices_;
  std::unique_ptr<Job> job_;
  std::deque<Json> pending_;  // received while a request was in progress
  bool is_gone_ = false;      // the other side
  bool is_stopped_ = false;
  bool has_traced_gpu_ = false;  // also an attempt: the process stays as it was left
};

}  // namespace autotuned::trainer
