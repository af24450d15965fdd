// SPDX-License-Identifier: Apache-2.0
// autotuned-trainer: the process that trains. Started by a session, which talks to it on descriptor 3.
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/frame.hpp"
#include "base/machine/machine.hpp"
#include "base/process/process.hpp"
#include "trainer/common/device.hpp"
#include "trainer/ranks/followers.hpp"
#include "trainer/ranks/own_rank.hpp"
#include "trainer/ranks/stopped_watch.hpp"
#include "trainer/server.hpp"

namespace {

constexpr int kSocket = 3;

}  // namespace

int main() {
  if (const char* const text = std::getenv("AUTOTUNED_PARENT_PID")) {
    const std::string_view digits = text;
    pid_t parent = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), parent);
    autotuned::die_with_parent(parent);
  }
  // Processes that a plugin starts stay descendants of ours: the session checks whether they slow other trainers.
  autotuned::adopt_orphans();
  if (fcntl(kSocket, F_SETFD, FD_CLOEXEC) != 0) {
    std::fputs(
        "autotuned-trainer: descriptor 3 is not a socket of a session\n"
        "This program is started by `autotuned run`; docs/trainer-protocol.md describes what it "
        "speaks.\n",
        stderr);
    return 2;
  }
  const auto place = autotuned::trainer::own_rank_from(
      [](const char* name) -> const char* { return std::getenv(name); });
  if (!place) {
    std::fputs(("autotuned-trainer: " + place.error().message() + "\n").c_str(), stderr);
    return 2;
  }
  // The first rank looks after the others, and each of these after the first one.
  std::optional<autotuned::trainer::StoppedWatch> watch;
  if (*place) {
    watch.emplace(std::vector<autotuned::trainer::StoppedWatch::Watched>{
        {::getppid(), "rank 0 of " + std::to_string((*place)->ranks)}});
  }
  // Another rank also has a tie to the first one.
  autotuned::Descriptor tie;
  if (*place) {
    tie.reset(autotuned::trainer::Followers::kTieInFollower);
    fcntl(tie.get(), F_SETFD, FD_CLOEXEC);
  }
  autotuned::FrameChannel channel{autotuned::Descriptor(kSocket)};
  autotuned::trainer::Server server(std::move(channel), autotuned::detect_machine(),
                                    autotuned::trainer::open_devices(), *place, std::move(tie));
  return server.serve() ? 0 : 1;
}
