// SPDX-License-Identifier: Apache-2.0
// A job written by hand in Python (bench/peers/), timed block by block.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "base/json.hpp"
#include "bench/process_use.hpp"
#include "daemon/trainers/trainer_client.hpp"

namespace autotuned::bench {

// Mistakes end the program.
class Peer {
 public:
  Peer(const std::filesystem::path& python, const std::filesystem::path& script,
       const std::filesystem::path& log);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // What a person would try.
  [[nodiscard]] const Json& settings() const { return settings_; }
  [[nodiscard]] std::string version() const;  // of PyTorch
  // The rate of one block; the CPU time is that of all processes.
  [[nodiscard]] LoadRate rate(const Json& settings, std::chrono::nanoseconds duration);
  [[nodiscard]] double samples_per_second(const Json& settings, std::chrono::nanoseconds duration) {
    return rate(settings, duration).samples_per_second;
  }
  [[nodiscard]] pid_t pid() const;

 private:
  daemon::NeverCancelled cancel_;
  std::unique_ptr<daemon::TrainerClient> client_;
  Json settings_;
};

}  // namespace autotuned::bench
