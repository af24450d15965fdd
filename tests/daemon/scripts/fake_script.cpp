// SPDX-License-Identifier: Apache-2.0
// A script that trains, as `autotuned run -- fake_script BEHAVIOUR` starts it: prints what is the script's own, and lets the
// agent of fake_agent.hpp answer. BEHAVIOUR is a file; besides what the agent reads,
//   exit      the exit code at its end
//   signal    the signal by which it ends instead
//   gate      a named pipe: it waits at its end until somebody has opened that for writing
// Writes "script.json" beside the file: what it was asked, what it saw, and under which configuration it went on.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "tests/daemon/scripts/fake_agent.hpp"

using autotuned::Json;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::filesystem::path file = argv[1];
  std::ifstream input(file);
  const Json behaviour = Json::parse(std::string{std::istreambuf_iterator<char>(input), {}});
  const char* const socket = std::getenv("AUTOTUNED_SCRIPT_SOCKET");
  const char* const python_path = std::getenv("PYTHONPATH");
  int dies_with_parent = -1;
  ::prctl(PR_GET_PDEATHSIG, &dies_with_parent);
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  std::string line;
  std::getline(std::cin, line);
  std::cout << "the script reads: " << line << std::endl;
  std::cerr << "the script complains" << std::endl;
  Json seen = {{"python_path", python_path == nullptr ? "" : python_path},
               {"dies_with_parent", dies_with_parent},
               {"blocks_sigterm", sigismember(&blocked, SIGTERM) == 1},
               {"is_marked", std::getenv("AUTOTUNED_JOB") != nullptr},
               {"group", ::getpgid(0) == ::getpgid(::getppid())},
               {"umask", mask}};
  if (socket != nullptr) {
    autotuned::FakeAgent agent(autotuned::Descriptor(std::atoi(socket)), behaviour);
    agent.serve();
    seen["requests"] = agent.requests();
    seen["configuration"] = agent.configuration();
  }
  std::cout << "the script trains on" << std::endl;
  if (behaviour.contains("gate")) {
    const autotuned::Descriptor gate(
        ::open(behaviour["gate"].get<std::string>().c_str(), O_RDONLY));
  }
  std::ofstream(file.parent_path() / "script.json") << seen.dump();
  if (const int signal = behaviour.value("signal", 0); signal != 0) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  return behaviour.value("exit", 0);
}
