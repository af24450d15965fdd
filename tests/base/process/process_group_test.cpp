// SPDX-License-Identifier: Apache-2.0
#include "base/process/process_group.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace autotuned {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

TEST(ProcessNumber, IsTheNameOfAFolderInProc) {
  EXPECT_EQ(process_number("12"), 12);
  for (const char* const name : {"", "self", "12a", "a12", "99999999999999999999"})
    EXPECT_EQ(process_number(name), std::nullopt) << name;
}

TEST(ProcessesOfGroup, AreThoseThatAreInItNow) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    if (::write(ends[1], "", 1) != 1) ::_exit(1);
    for (;;)
      ::pause();
  }
  char told = 0;
  ASSERT_EQ(::read(ends[0], &told, 1), 1);
  EXPECT_THAT(processes_of_group(child), ElementsAre(child));
  EXPECT_THAT(processes_of_group(::getpgrp()), Contains(::getpid()));
  EXPECT_THAT(processes_of_group(::getpgrp()), Not(Contains(child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(processes_of_group(child), IsEmpty());
  for (const int end : ends)
    ::close(end);
}

}  // namespace
}  // namespace autotuned
