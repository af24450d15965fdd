// SPDX-License-Identifier: Apache-2.0
// What plugins cost the session: a question to each built-in one, and loading twenty.
//
//   build/release/bin/plugin_cost [QUESTIONS [LOADINGS]]
//
// Prints Markdown. A question is what the tuner asks: writing the situation, the plugin's function, reading
// the answer. The situation is that of a small job after 10 trials of that plugin in this run and 20 in
// earlier ones. Each loading is a process of its own: a library is never unloaded. Times are those of the
// CPU, which a busy machine does not change; nothing here waits for anything but warm files.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/plugins/places.hpp"
#include "plugins/host/loader.hpp"

namespace {

using namespace autotuned;

constexpr int kTrials = 10;
constexpr int kEarlierTrials = 20;
constexpr int kLoadedPlugins = 20;

// CPU time of this process so far.
double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

struct Spread {
  double median = 0.0;
  double p99 = 0.0;
};

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {values.at(values.size() / 2), values.at(values.size() * 99 / 100)};
}

Json long_situation() {
  std::ifstream file(bench::source_folder() / "tests/plugins/data/fashion_cnn_cpu.json");
  Json situation = Json::parse(file);
  const Json trial = {{"change", {{"loader.prefetch_batches", 16}}},
                      {"reference", situation.at("incumbent")},
                      {"verdict", "rejected"},
                      {"failure", nullptr},
                      {"ratio", 0.99},
                      {"ratio_low", 0.97},
                      {"ratio_high", 1.01},
                      {"candidate_samples_per_second", 5000.0},
                      {"peak_memory_bytes", 100'000'000}};
  for (int i = 0; i < kTrials; ++i)
    situation["trials"].push_back(trial);
  for (int i = 0; i < kEarlierTrials; ++i)
    situation["history"].push_back(trial);
  return situation;
}

void measure_questions(int questions) {
  const Json situation = long_situation();
  std::cout << fmt::format("A situation of {} bytes, {} questions each.\n\n",
                           to_line(situation).size(), questions)
            << "| plugin | kind | median | 99 % under |\n|---|---|---|---|\n";
  for (const plugins::FoundPlugin& plugin :
       plugins::find_plugins({bench::build_folder() / "lib/autotuned/plugins"}, {})) {
    if (!plugin.policy) throw std::runtime_error(plugin.refusal);
    std::vector<double> times;
    for (int i = 0; i < questions; ++i) {
      const double start = cpu_us();
      const auto answer = plugin.policy->propose(situation);
      times.push_back(cpu_us() - start);
      if (!answer) throw std::runtime_error(answer.error().message());
    }
    const Spread spread = spread_of(std::move(times));
    std::cout << fmt::format("| `{}` | {} | {:.0f} us | {:.0f} us |\n", plugin.name, plugin.kind,
                             spread.median, spread.p99);
  }
}

// Microseconds; negative when not all were ready.
double load_once(const std::filesystem::path& folder) {
  const double start = cpu_us();
  const auto found = plugins::find_plugins({folder}, {});
  const double us = cpu_us() - start;
  const auto ready = std::ranges::count_if(
      found, [](const plugins::FoundPlugin& plugin) { return plugin.policy != nullptr; });
  return ready == kLoadedPlugins ? us : -1.0;
}

double load_in_a_process(const std::filesystem::path& folder) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const double us = load_once(folder);
    _exit(write(ends[1], &us, sizeof us) == sizeof us ? 0 : 1);
  }
  close(ends[1]);
  double us = -1.0;
  const bool is_read = read(ends[0], &us, sizeof us) == sizeof us;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  if (!is_read || us < 0.0) throw std::runtime_error("not all twenty plugins were loaded");
  return us;
}

void measure_loading(const std::filesystem::path& folder, int loadings) {
  std::vector<double> times;
  for (int i = 0; i < loadings; ++i)
    times.push_back(load_in_a_process(folder));
  const Spread spread = spread_of(std::move(times));
  const auto bytes = std::filesystem::file_size(folder / "libbench_plugin_1.so");
  std::cout << fmt::format("| {} | {:.0f} KB | {:.1f} ms | {:.1f} ms |\n",
                           folder.filename().string(), static_cast<double>(bytes) / 1e3,
                           spread.median / 1e3, spread.p99 / 1e3);
}

}  // namespace

int main(int argc, char** argv) try {
  // Loading first: the processes are copies of this one, which has no plugin yet.
  const int loadings = argc > 2 ? std::atoi(argv[2]) : 200;
  std::cout << fmt::format("Finding, checking and loading {} plugins, {} times.\n\n",
                           kLoadedPlugins, loadings)
            << "| plugins | each | median | 99 % under |\n|---|---|---|---|\n";
  measure_loading(bench::build_folder() / "bench/twenty_plugins/whole", loadings);
  measure_loading(bench::build_folder() / "bench/twenty_plugins/stripped", loadings);
  std::cout << "\n";
  measure_questions(argc > 1 ? std::atoi(argv[1]) : 2000);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
