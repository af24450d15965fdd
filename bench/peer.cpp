// SPDX-License-Identifier: Apache-2.0
#include "bench/peer.hpp"

#include <utility>

#include "base/process/process.hpp"
#include "base/trial.hpp"
#include "bench/recipe_job.hpp"

namespace autotuned::bench {
namespace {

constexpr std::chrono::nanoseconds kLimit =
    std::chrono::minutes(5);  // torch.compile takes its time

}  // namespace

Peer::Peer(const std::filesystem::path& python, const std::filesystem::path& script,
           const std::filesystem::path& log) {
  daemon::TrainerSpec spec;
  spec.program = std::filesystem::absolute(python);
  spec.arguments = {std::filesystem::absolute(script).string()};
  spec.environment = environment_of({"HOME", "LANG", "PATH", "TMPDIR"});
  spec.environment.emplace_back("OMP_WAIT_POLICY=passive");
  spec.log = log;
  client_ = std::make_unique<daemon::TrainerClient>(
      value_of(daemon::TrainerClient::start(spec, cancel_)));
  const Json loaded = value_of(client_->request("load", Json::object(), kLimit));
  settings_ = member(loaded, "settings");
}

Peer::~Peer() {
  client_->stop();
}

std::string Peer::version() const {
  return get_string(client_->hello(), "libtorch").value_or("?");
}

pid_t Peer::pid() const {
  return client_->pid();
}

LoadRate Peer::rate(const Json& settings, std::chrono::nanoseconds duration) {
  value_of(client_->request("prepare", {{"configuration", settings}}, kLimit));
  const auto before = cpu_time_of_tree(pid());
  const Json answer = value_of(
      client_->request("run", {{"minimum_ns", duration.count()}, {"minimum_steps", 1}}, kLimit));
  const std::chrono::duration<double> used = cpu_time_of_tree(pid()) - before;
  const Block block = value_of(Block::from_json(answer));
  return {block.samples_per_second(), static_cast<double>(block.samples) / used.count()};
}

}  // namespace autotuned::bench
