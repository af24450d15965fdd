// SPDX-License-Identifier: Apache-2.0
// Ranks that are killed (SIGKILL) or stopped (SIGSTOP) at random moments: the real trainer tunes and trains a small job on two
// or three ranks, a random one of them is hit, and the same command is given again until it ends. Then:
//   - the training has all of its steps, and the model of two ranks is that of a run in which nobody was hit, byte for byte;
//     that of three has the same size (docs/distributed.md);
//   - no trial that was ever seen finished is missing, changed or there twice, and the history is whole;
//   - no run is left unfinished, and no process;
//   - a command that could not go on said why.
// A rank that is stopped costs ten to fifteen seconds, after which it is ended; so fewer are stopped than killed.
// Each hit is told at once: where the program hangs, what it has printed says where it was.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/faults/evidence.hpp"
#include "tests/faults/processes.hpp"
#include "tests/integration/scene.hpp"

namespace {

using namespace autotuned;
using Clock = std::chrono::steady_clock;

const faults::Role kTrainer{"trainer", "autotuned-trainer", ""};

constexpr int kMaxAttempts = 60;
constexpr int kMaxInARound = 5;
constexpr int kOneInSoManyIsStopped = 4;
constexpr std::int64_t kSamples = 4096;
constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kEpochs = 40;

// Prints a line with the time since the first one.
void tell(const std::string& what) {
  static const Clock::time_point start = Clock::now();
  const std::chrono::duration<double> passed = Clock::now() - start;
  std::printf("%7.1f s  %s\n", passed.count(), what.c_str());
  std::fflush(stdout);
}

// Batches in a random order, and dropout of patches: who goes on from a checkpoint must go on with the same numbers.
std::string job_of(int ranks) {
  return "seed: 3\n"
         "model: {type: vit, size: tiny, patch: 2, embed: 24, depth: 0, heads: 3, pool: avg, "
         "patch_dropout: 0.5, classes: 4}\n"
         "data: {type: synthetic, samples: " +
         std::to_string(kSamples) +
         ", shape: [1, 8, 8], classes: 4}\ninput: [scale: {by: 1/255}]\n"
         "optimizer: {type: sgd, lr: 0.1, momentum: 0.9}\ntrain: {epochs: " +
         std::to_string(kEpochs) + ", batch_size: " + std::to_string(kBatch) +
         ", ranks: " + std::to_string(ranks) +
         "}\nstart: {optimizer.set_to_none: off, threads.intra_op: 1}\n"
         "tune: {plugins: [set_to_none], budget: 6s}\n";
}

std::int64_t steps_of(int ranks) {
  return kEpochs * (kSamples / ranks / kBatch);
}

// Its trainer is the real one.
class RankScene : public Scene {
 public:
  explicit RankScene(int ranks) {
    use_real_trainer();
    write_job(job_of(ranks), ", checkpoint_every: 1s");
  }
};

// What a run comes to in which nobody is hit.
struct Whole {
  std::string model;
  Clock::duration length{};
};

Whole whole_run(int ranks) {
  const RankScene scene(ranks);
  tell("a run of " + std::to_string(ranks) + " ranks in which nobody is hit");
  const auto start = Clock::now();
  const Outcome outcome = scene.run();
  if (outcome.code != 0) faults::report_wrong("a run in which nobody is hit: " + outcome.err);
  return {scene.folder().read("out/model.pt"), Clock::now() - start};
}

// By the variables that the leader gives the others.
int rank_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
  const std::string environment{std::istreambuf_iterator<char>(file), {}};
  const std::string name = "AUTOTUNED_RANK=";
  const std::size_t at = environment.find(name);
  return at == std::string::npos ? 0 : std::atoi(environment.c_str() + at + name.size());
}

struct Hits {
  int count = 0;
  std::map<std::string, int> by_victim;
};

class Round {
 public:
  Round(std::mt19937_64& random, int ranks, const Whole& whole)
      : scene_(ranks), random_(&random), ranks_(ranks), whole_(&whole) {}

  void run(int most, Hits& hits) {
    std::atomic<bool> is_done = false;
    std::thread command([&] {
      repeat();
      is_done = true;
    });
    for (int i = 0; i < most && !is_done;) {
      std::this_thread::sleep_for(whole_->length *
                                  std::uniform_real_distribution(0.0, 0.6)(*random_));
      look();
      if (hit(hits)) ++i;
    }
    command.join();
    look();
    check();
  }

 private:
  // The same command until it ends well.
  void repeat() {
    for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
      const int hits_before = hits_;
      outcome_ = scene_.run();
      const std::string end = "exit code " + std::to_string(outcome_.code);
      tell("the command has ended: " + end);
      if (outcome_.code == 0) return;
      if (hits_ == hits_before) {
        faults::report_wrong(end + " although nobody was hit: " + outcome_.err);
      }
      if (outcome_.err.empty()) faults::report_wrong(end + " without a message");
    }
  }

  bool hit(Hits& hits) {
    const auto found = faults::find_processes(scene_.folder().path(), kTrainer);
    if (found.empty()) return false;
    const faults::Found& one = found[(*random_)() % found.size()];
    const pid_t victim = one.pid;
    const int rank = rank_of(victim);
    // Only once all are there. One that is seen before may be a child between fork() and exec(): its parent waits for it
    // in the kernel then, and does not look stopped itself.
    const std::string leader = rank == 0 ? std::to_string(victim) : one.parent;
    const auto others = std::ranges::count(found, leader, &faults::Found::parent);
    const bool is_stopped = others == ranks_ - 1 && (*random_)() % kOneInSoManyIsStopped == 0;
    // Counted first: a command that ends because of it must find it counted.
    ++hits_;
    if (::kill(victim, is_stopped ? SIGSTOP : SIGKILL) != 0) return false;
    ++hits.count;
    const std::string what = "rank " + std::to_string(rank) + (is_stopped ? " stopped" : " killed");
    ++hits.by_victim[what];
    tell(what + ": process " + std::to_string(victim) + ", one of " + std::to_string(found.size()));
    return true;
  }

  // What must hold at every moment.
  void look() {
    auto now = faults::finished_trials(scene_);
    faults::check_kept(seen_, now, "after a hit");
    seen_ = std::move(now);
  }

  void check() const {
    if (outcome_.code != 0) {
      faults::report_wrong("the command does not come to its end: " + outcome_.err);
      return;
    }
    const Json run = outcome_.json();
    const auto steps = get_integer(member(run, "training"), "steps").value_or(0);
    if (steps != steps_of(ranks_)) {
      faults::report_wrong("the training has " + std::to_string(steps) + " steps");
    }
    // From three ranks on, the first step after a checkpoint adds up gradients in another order (docs/distributed.md).
    const std::string model = scene_.folder().read("out/model.pt");
    const bool is_same =
        ranks_ == 2 ? model == whole_->model : model.size() == whole_->model.size();
    if (!is_same) faults::report_wrong("the model is not that of a run in which nobody was hit");
    faults::check_whole(scene_, "afterwards");
    faults::check_nothing_unfinished(scene_, "afterwards");
    if (!scene_.all_ended()) faults::report_wrong("a process is left");
  }

  RankScene scene_;
  std::mt19937_64* random_;
  int ranks_;
  const Whole* whole_;
  Outcome outcome_;
  faults::Trials seen_;
  std::atomic<int> hits_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  int kills = 200;
  double minutes = 0.0;
  std::uint64_t seed = std::random_device()();
  CLI::App app{"Kills and stops ranks at random moments"};
  app.add_option("--kills", kills)->capture_default_str();
  app.add_option("--minutes", minutes, "Begin no round after so long; 0: as long as it takes")
      ->capture_default_str();
  app.add_option("--seed", seed, "Random unless given");
  CLI11_PARSE(app, argc, argv);
  testing::InitGoogleTest();
  std::mt19937_64 random(seed);

  tell("seed " + std::to_string(seed));
  const auto start = Clock::now();
  std::map<int, Whole> whole;
  Hits done;
  int rounds = 0;
  const auto is_over = [&] {
    const std::chrono::duration<double> run = Clock::now() - start;
    return minutes > 0.0 && run.count() >= 60.0 * minutes;
  };
  while (done.count < kills && faults::wrong() == 0 && !is_over()) {
    const int ranks = random() % 3 == 0 ? 3 : 2;
    if (!whole.contains(ranks)) whole[ranks] = whole_run(ranks);
    if (faults::wrong() > 0) break;
    tell("a round of " + std::to_string(ranks) + " ranks");
    Round(random, ranks, whole[ranks]).run(std::min(kMaxInARound, kills - done.count), done);
    tell(std::to_string(done.count) + " hits in " + std::to_string(++rounds) + " rounds");
  }
  std::printf("\n| what | times |\n|---|---|\n");
  for (const auto& [victim, count] : done.by_victim)
    std::printf("| %s | %d |\n", victim.c_str(), count);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("\n%d hits in %d rounds, seed %llu, %.0f s: %d wrong\n", done.count, rounds,
              static_cast<unsigned long long>(seed), seconds, faults::wrong());
  return faults::wrong() == 0 ? 0 : 1;
}
