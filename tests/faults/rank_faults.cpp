// SPDX-License-Identifier: Apache-2.0
// What one of two ranks may meet, in a block of a trial and in a training, as the first rank and as the other: it is
// killed (SIGKILL), it is stopped (SIGSTOP), it has no memory left, or it reads a damaged file. Each time
//   - the request ends within half a minute, with an error that names the rank;
//   - after a block, the same job measures the next one;
//   - no rank is left running.
// Prints how long the errors took, as a table.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/machine.hpp"
#include "base/statistics.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/child_processes.hpp"
#include "tests/faults/evidence.hpp"
#include "tests/places.hpp"

namespace {

using namespace autotuned;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using tests::children_of;
using tests::is_running;

constexpr int kRanks = 2;
constexpr Seconds kMaxUntilError{30.0};
constexpr std::chrono::seconds kEndPatience(5);
// Into a block, so that it is in its steps.
constexpr std::chrono::milliseconds kMoment(300);
// Less than any activation of the network below takes.
constexpr std::uint64_t kMemoryLeft = std::uint64_t{24} << 20U;

enum class Fault { killed, stopped, no_memory, damaged };
constexpr std::array<std::pair<Fault, const char*>, 4> kFaults = {
    {{Fault::killed, "killed"},
     {Fault::stopped, "stopped"},
     {Fault::no_memory, "no memory"},
     {Fault::damaged, "damaged file"}}};

struct Case {
  Fault fault = Fault::killed;
  int rank = 0;
  bool is_training = false;
};

recipes::Recipe job_of(const Case& one, const std::filesystem::path& folder) {
  recipes::Recipe recipe;
  recipe.name = "faults";
  recipe.device = "cpu";
  recipe.optimizer = {
      "sgd", {{"lr", 0.01}, {"momentum", 0.0}, {"weight_decay", 0.0}, {"nesterov", false}}};
  recipe.train = {.epochs = 1'000'000, .steps = {}, .batch_size = 4'000, .drop_last = true};
  recipe.train.ranks = kRanks;
  // Activations of 70 MiB, which are taken from the system in each step and given back.
  recipe.model = {"fashion_cnn", {{"classes", 4}}};
  recipe.data = {"synthetic", {{"samples", 20'000}, {"shape", {2, 12, 12}}, {"classes", 4}}};
  recipe.input.push_back({"scale", {{"by", "1/255"}}});
  if (one.fault != Fault::damaged) return recipe;
  recipe.train.batch_size = 2;
  recipe.model = {"mlp", {{"hidden", 16}, {"classes", 4}}};
  recipe.data = {"image_files", {{"files", (folder / "*/*.jpg").string()}, {"shuffle", false}}};
  recipe.input = {{"decode", Json::object()}, {"to_float", Json::object()}};
  return recipe;
}

std::filesystem::path picture(const char* name) {
  return tests::source_folder() / "tests/trainer/input/data" / name;
}

// The file is replaced as a whole, so that a reader sees all of it or nothing.
void replace(const std::filesystem::path& file, const std::filesystem::path& by) {
  const std::filesystem::path copy = file.string() + ".new";
  std::filesystem::copy_file(by, copy, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::rename(copy, file);
}

void write_pictures(const std::filesystem::path& folder) {
  for (const char* name : {"ant", "cat"}) {
    std::filesystem::create_directory(folder / name);
    for (const char* file : {"1.jpg", "2.jpg", "3.jpg", "4.jpg"})
      std::filesystem::copy_file(picture("420_16x32.jpg"), folder / name / file);
  }
}

// A picture of that rank's share: the pictures are dealt out in turn, in their order.
std::filesystem::path picture_of(int rank, const std::filesystem::path& folder) {
  return folder / "cat" / (rank == 0 ? "3.jpg" : "4.jpg");
}

std::uint64_t address_space(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Leaves the process hardly more than it has between two steps.
void take_memory(pid_t process) {
  std::uint64_t least = UINT64_MAX;
  for (int look = 0; look < 200; ++look) {
    least = std::min(least, address_space(process));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  rlimit limit{};
  if (::prlimit(process, RLIMIT_AS, nullptr, &limit) != 0) return;
  limit.rlim_cur = least + kMemoryLeft;
  ::prlimit(process, RLIMIT_AS, &limit, nullptr);
}

// The processes of a job that has one trainer, by rank.
std::vector<pid_t> ranks_of_job() {
  std::vector<pid_t> ranks = children_of(::getpid());
  if (ranks.size() != 1) return ranks;
  for (const pid_t other : children_of(ranks.front()))
    ranks.push_back(other);
  return ranks;
}

// Returns when it happened.
Clock::time_point strike(const Case& one, pid_t process, const std::filesystem::path& folder) {
  if (one.fault == Fault::no_memory) take_memory(process);
  const auto now = Clock::now();
  if (one.fault == Fault::killed) ::kill(process, SIGKILL);
  if (one.fault == Fault::stopped) ::kill(process, SIGSTOP);
  if (one.fault == Fault::damaged) replace(picture_of(one.rank, folder), picture("cmyk.jpg"));
  return now;
}

struct Told {
  Clock::time_point struck;
  std::vector<pid_t> ranks;  // when it was struck
  std::optional<Error> error;
};

Told in_block(const Case& one, daemon::TrainerBackend& job, const Configuration& begin,
              const std::filesystem::path& folder) {
  Told told;
  if (const auto warm = job.run_block(begin, {}); !warm) {
    faults::report_wrong("the first block: " + warm.error().message());
    return told;
  }
  told.ranks = ranks_of_job();
  if (std::ssize(told.ranks) != kRanks) return told;
  {
    const std::jthread later([&] {
      std::this_thread::sleep_for(kMoment);
      told.struck = strike(one, told.ranks[static_cast<std::size_t>(one.rank)], folder);
    });
    const auto block = job.run_block(begin, {.minimum_duration = std::chrono::minutes(10)});
    if (!block) told.error = block.error();
  }
  return told;
}

Told in_training(const Case& one, daemon::TrainerBackend& job, const Configuration& begin,
                 const std::filesystem::path& folder) {
  Told told;
  bool is_struck = false;
  const auto trained = job.train(begin, folder / "checkpoint.pt", [&](const Json& progress) {
    if (is_struck || !get_integer(progress, "step")) return;
    told.ranks = ranks_of_job();
    if (std::ssize(told.ranks) != kRanks) return;
    is_struck = true;
    told.struck = strike(one, told.ranks[static_cast<std::size_t>(one.rank)], folder);
  });
  if (!trained) told.error = trained.error();
  return told;
}

void check_next_block(const Case& one, daemon::TrainerBackend& job, const Configuration& begin,
                      const std::filesystem::path& folder) {
  if (one.fault == Fault::damaged) {
    replace(picture_of(one.rank, folder), picture("420_16x32.jpg"));
  }
  if (const auto next = job.run_block(begin, {}); !next) {
    faults::report_wrong("the next block: " + next.error().message());
  }
}

void check_nobody_is_left(const std::vector<pid_t>& ranks) {
  const auto deadline = Clock::now() + kEndPatience;
  while (std::ranges::any_of(ranks, is_running) && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (std::ranges::any_of(ranks, is_running)) faults::report_wrong("a rank is left running");
}

struct Seen {
  double seconds = 0.0;
  std::string error;
};

Seen meet(const Case& one) {
  const TemporaryFolder folder;
  if (one.fault == Fault::damaged) write_pictures(folder.path());
  const recipes::Recipe recipe = job_of(one, folder.path());
  daemon::TrainerBackendSpec spec;
  spec.recipe = recipe;
  spec.knobs = recipes::with_ranks(recipes::knobs_of(detect_machine()), kRanks);
  spec.trainer = tests::build_folder() / "bin/autotuned-trainer";
  spec.folder = folder.path();
  const Configuration begin = recipe.starting_configuration(spec.knobs);
  daemon::NeverCancelled never;
  daemon::TrainerBackend job(std::move(spec), never);

  const Told told = one.is_training ? in_training(one, job, begin, folder.path())
                                    : in_block(one, job, begin, folder.path());
  const Seconds taken = Clock::now() - told.struck;
  if (!told.error) {
    faults::report_wrong("nothing was noticed");
    return {};
  }
  const std::string text = told.error->message();
  const std::string name = "rank " + std::to_string(one.rank) + " of " + std::to_string(kRanks);
  if (text.find(name) == std::string::npos) {
    faults::report_wrong("the error does not name " + name + ": " + text);
  }
  if (taken >= kMaxUntilError) {
    faults::report_wrong("it took " + std::to_string(taken.count()) + " s: " + text);
  }
  if (!one.is_training) check_next_block(one, job, begin, folder.path());
  std::vector<pid_t> ranks = ranks_of_job();
  ranks.insert(ranks.end(), told.ranks.begin(), told.ranks.end());
  job.stop();
  check_nobody_is_left(ranks);
  return {taken.count(), text.substr(0, text.find('\n'))};
}

}  // namespace

int main(int argc, char** argv) {
  int times = 3;
  bool is_training_only = false;
  CLI::App app{"One of two ranks is killed, stopped, out of memory, or reads a damaged file"};
  app.add_option("--times", times, "Of each case")->capture_default_str();
  app.add_flag("--training-only", is_training_only, "No blocks");
  CLI11_PARSE(app, argc, argv);
  testing::InitGoogleTest();

  std::printf("| in | one rank | rank | error after, median | longest | the last one |\n");
  std::printf("|---|---|---|---|---|---|\n");
  const std::vector<bool> requests =
      is_training_only ? std::vector<bool>{true} : std::vector<bool>{false, true};
  for (const bool is_training : requests) {
    for (const auto& [fault, name] : kFaults) {
      for (int rank = 0; rank < kRanks; ++rank) {
        std::vector<double> seconds;
        Seen seen;
        for (int i = 0; i < times; ++i) {
          seen = meet({.fault = fault, .rank = rank, .is_training = is_training});
          seconds.push_back(seen.seconds);
        }
        std::printf("| %s | %s | %d | %.1f s | %.1f s | %s |\n", is_training ? "training" : "block",
                    name, rank, median(seconds), seconds.empty() ? 0.0 : std::ranges::max(seconds),
                    seen.error.c_str());
        std::fflush(stdout);
      }
    }
  }
  std::printf("\n%d wrong\n", faults::wrong());
  return faults::wrong() == 0 ? 0 : 1;
}
