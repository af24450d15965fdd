// SPDX-License-Identifier: Apache-2.0
// The tests of this program start it again as their session process: what supervises sessions starts the
// program that it is itself.
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/frame.hpp"
#include "base/process/process.hpp"
#include "daemon/supervisor/own_process.hpp"
#include "tests/daemon/supervisor/supervision.hpp"

namespace {

using namespace autotuned;
using namespace std::chrono_literals;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int report(FrameChannel& channel, int exit_code, const Json& request) {
  const Json result = {{"event", "result"},
                       {"exit_code", exit_code},
                       {"request_bytes", to_line(request).size()},
                       {"faults", member(request, "faults")}};
  return channel.send(result) ? 0 : 1;
}

// One that fails with its trainer, and one that does not.
bool have_trials(FrameChannel& channel) {
  const Json failed = {{"verdict", "failed"}, {"failure", "out_of_memory"}};
  const Json accepted = {{"verdict", "accepted"}};
  for (const Json& event :
       {Json{{"event", "trainer_ended"}, {"trial", 1}, {"outcome", "out_of_host_memory"}},
        Json{{"event", "trial_finished"}, {"trial", failed}},
        Json{{"event", "trial_finished"}, {"trial", accepted}},
        Json{{"event", "trainer_ended"}, {"trial", 0}, {"outcome", "crashed"}}}) {
    if (!channel.send(event)) return false;
  }
  return true;
}

// False when it is to die.
bool gets_past_a_plugin(FrameChannel& channel, const Json& request) {
  const Json& faults = member(request, "faults");
  const bool is_known = !member(request, "without").empty();
  if (!is_known) {
    (void)channel.send({{"event", "loading_plugin"}, {"plugin", "crashes"}});
    return false;
  }
  if (faults.empty()) return true;
  if (!std::filesystem::exists("died before")) {
    std::ofstream("died before");
    return false;
  }
  Json answered = faults.at(0);
  answered["event"] = "answered";
  answered["is_failure"] = true;
  (void)channel.send(answered);
  return false;
}

int play_session() {
  die_with_parent(std::atoi(variable("AUTOTUNED_PARENT_PID").c_str()));
  const std::string part = variable("AUTOTUNED_TRAINER");
  if (part == daemon::kDeaf) std::raise(SIGSTOP);
  FrameChannel channel{Descriptor(daemon::kControlDescriptor)};
  const auto request = channel.receive(-1ns);
  if (!request) return 1;
  if (!channel.send({{"event", "run"}, {"run", "r-" + std::to_string(getpid())}})) return 1;
  if (part == daemon::kFaulty && !gets_past_a_plugin(channel, *request)) return 1;
  const bool waits = part == daemon::kHeld || part == daemon::kBusy;
  while (waits && !std::filesystem::exists("go")) {
    const auto frame = channel.receive(5ms);
    if (frame) return report(channel, 130, *request);  // there is nothing but cancel
    if (frame.error().kind != ErrorKind::timeout) return 1;
    if (part == daemon::kBusy && !have_trials(channel)) return 1;
  }
  return report(channel, 0, *request);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == daemon::kSessionProcess) return play_session();
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
