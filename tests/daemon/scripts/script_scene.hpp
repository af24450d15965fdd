// SPDX-License-Identifier: Apache-2.0
// A ScriptBackend and the agent that it talks to, which is a thread here.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/scripts/script_backend.hpp"
#include "tests/daemon/scripts/fake_agent.hpp"
#include "tests/daemon/trainers/fake_session.hpp"

namespace autotuned::daemon {

class ScriptScene {
 public:
  // `lock`: the file of the measurement lock; empty: there is none. `most_stall`: as for a ScriptBackend.
  explicit ScriptScene(Json behaviour = Json::object(), std::filesystem::path lock = {},
                       std::chrono::nanoseconds limit = std::chrono::hours(1),
                       std::chrono::nanoseconds most_stall = std::chrono::hours(1)) {
    auto sockets = socket_pair();
    if (!sockets) throw std::runtime_error(sockets.error().message());
    agent_.emplace(std::move(sockets->theirs), std::move(behaviour));
    const auto tell = [this](const std::string& text) { told_.push_back(text); };
    job_.emplace(std::move(sockets->ours), cancel_,
                 MeasurementLock(std::move(lock), limit, tell, tell), most_stall);
    thread_ = std::thread([this] { agent_->serve(); });
  }
  ~ScriptScene() { let_go(); }
  ScriptScene(const ScriptScene&) = delete;
  ScriptScene& operator=(const ScriptScene&) = delete;

  ScriptBackend& job() { return *job_; }
  CancelSwitch& cancel() { return cancel_; }
  // By the measurement lock.
  [[nodiscard]] const std::vector<std::string>& told() const { return told_; }
  // With a step that is known.
  ScriptBackend& loaded() {
    EXPECT_TRUE(job_->greet());
    EXPECT_TRUE(job_->load());
    return *job_;
  }
  [[nodiscard]] Configuration with(const std::string& knob, KnobValue value) const {
    Configuration configuration = job_->starting();
    configuration.set(knob, std::move(value));
    return configuration;
  }
  // Ends the conversation and waits for the agent's thread: what it saw may be read then.
  const FakeAgent& let_go() {
    job_.reset();
    if (thread_.joinable()) thread_.join();
    return *agent_;
  }
  // After let_go(): of these requests one field.
  [[nodiscard]] std::vector<Json> asked(const std::string& request) const {
    std::vector<Json> found;
    for (const Json& one : agent_->requests()) {
      if (one.at("request") == request) found.push_back(one);
    }
    return found;
  }

 private:
  CancelSwitch cancel_;
  std::vector<std::string> told_;
  std::optional<FakeAgent> agent_;
  std::optional<ScriptBackend> job_;
  std::thread thread_;
};

}  // namespace autotuned::daemon
