// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/orphans.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "base/process/process.hpp"
#include "base/process/resident_memory.hpp"

namespace autotuned::daemon {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(Orphans, AreFoundByTheirMark) {
  const std::string token = "test-" + std::to_string(getpid());
  ProcessSpec spec;
  spec.program = "/bin/sleep";
  spec.arguments = {"1000"};
  spec.environment = {"A=b", std::string(kMarkVariable) + "=" + token, "C=d"};
  auto marked = Process::start(spec);
  ASSERT_TRUE(marked);
  spec.environment = {std::string(kMarkVariable) + "=" + token + "x"};
  auto other = Process::start(spec);
  ASSERT_TRUE(other);
  // The kernel releases us before the new program's environment can be read.
  const auto give_up = std::chrono::steady_clock::now() + 10s;
  while (processes_of({token}).empty() && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(1ms);
  EXPECT_THAT(processes_of({token}), ElementsAre(marked->pid()));
  EXPECT_GT(resident_bytes(marked->pid()), 0);
  EXPECT_EQ(end_processes_of({token}, 10s), 1);
  const auto exit = marked->wait(10s);
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->signal, SIGKILL);
  EXPECT_FALSE(other->wait(0s));
  EXPECT_EQ(end_processes_of({}, 10s), 0);
}

}  // namespace
}  // namespace autotuned::daemon
