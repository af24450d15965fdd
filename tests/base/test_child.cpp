// SPDX-License-Identifier: Apache-2.0
// A child process that behaves as its first argument says. Descriptor 3 is the test's: a byte there
// means "ready", its end means that everybody who held it is gone.
#include <dirent.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/process/process.hpp"

namespace {

constexpr int kTestDescriptor = 3;

void say_ready() {
  if (::write(kTestDescriptor, "r", 1) != 1) std::_Exit(90);
}

[[noreturn]] void sleep_for_ever() {
  while (true)
    ::pause();
}

int list_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 91;
  while (const dirent* entry = ::readdir(folder)) {
    const int number = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && number != ::dirfd(folder)) std::printf("%d\n", number);
  }
  ::closedir(folder);
  return 0;
}

int list_signals() {
  sigset_t mask;
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  for (int number = 1; number < NSIG; ++number) {
    if (number == SIGKILL || number == SIGSTOP) continue;
    if (sigismember(&mask, number) == 1) std::printf("blocked %d\n", number);
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
      std::printf("ignored %d\n", number);
    }
  }
  return 0;
}

// A grandchild that nobody waits for, deaf to SIGTERM, in the same group.
void leave_grandchild() {
  if (::fork() != 0) return;
  if (::fork() != 0) ::_exit(0);
  std::signal(SIGTERM, SIG_IGN);
  say_ready();
  sleep_for_ever();
}

// A grandchild that has left the group, lost its parent and hidden its environment. It keeps a CPU busy as long as we are
// its parent; one that `stays` sleeps for ever.
void leave_hidden(bool stays) {
  const pid_t leader = ::getpid();
  if (::fork() != 0) return;
  const pid_t between = ::getpid();
  if (::fork() != 0) ::_exit(0);
  ::setsid();
  for (char** variable = environ; *variable != nullptr; ++variable)
    std::memset(*variable, 0, std::strlen(*variable));
  while (::getppid() == between) {
  }
  say_ready();
  if (stays) sleep_for_ever();
  while (::getppid() == leader) {
  }
  ::_exit(0);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  const int number = count > 2 ? std::atoi(arguments[2]) : 0;
  if (mode == "exit") return number;
  if (mode == "raise") {
    std::raise(number);
  } else if (mode == "print") {
    std::printf("out %d\n", count);
    for (int i = 2; i < count; ++i)
      std::printf("<%s>\n", arguments[i]);
    std::fflush(stdout);
    std::fprintf(stderr, "err\n");
  } else if (mode == "environment") {
    for (char** text = environ; *text != nullptr; ++text)
      std::printf("%s\n", *text);
  } else if (mode == "descriptors") {
    return list_descriptors();
  } else if (mode == "signals") {
    return list_signals();
  } else if (mode == "input") {
    return std::getchar() == EOF ? 0 : 92;
  } else if (mode == "write") {
    // Its own number to each descriptor that is named.
    for (int i = 2; i < count; ++i) {
      const std::string text = arguments[i];
      if (::write(std::stoi(text), text.data(), text.size()) < 0) return 93;
    }
  } else if (mode == "wait") {
    say_ready();
    sleep_for_ever();
  } else if (mode == "ignore-term") {
    std::signal(SIGTERM, SIG_IGN);
    say_ready();
    sleep_for_ever();
  } else if (mode == "exit-on-term") {
    std::signal(SIGTERM, [](int) { ::_exit(7); });
    say_ready();
    sleep_for_ever();
  } else if (mode == "grandchild-stays") {
    leave_grandchild();
    return 5;
  } else if (mode == "grandchild-and-wait") {
    leave_grandchild();
    sleep_for_ever();
  } else if (mode == "parent-of-loyal-child") {
    const pid_t self = ::getpid();
    if (::fork() == 0) {
      autotuned::die_with_parent(self);
      // Out of the group, so that only the parent's death can end it.
      ::setpgid(0, 0);
      say_ready();
    } else {
      ::close(kTestDescriptor);
    }
    sleep_for_ever();
  } else if (mode == "hidden-spinner" || mode == "hidden-sleeper") {
    autotuned::adopt_orphans();
    leave_hidden(mode == "hidden-sleeper");
    ::close(kTestDescriptor);
    sleep_for_ever();
  } else if (mode == "orphan") {
    autotuned::die_with_parent(::getppid() + 1);
    return 0;
  } else {
    return 99;
  }
  return 0;
}
