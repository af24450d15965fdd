// SPDX-License-Identifier: Apache-2.0
// kill -9, long form: two runs compete for one device, and program, session or trainer of either is
// killed at random moments; with --daemon both are in the queue of one daemon, which is killed instead of
// the program and started again. The same commands are given again until they end, and then:
//   - every run ended right, each proposal decided once;
//   - no trial that was ever seen finished is missing, changed or there twice, and every trial that a program
//     said to be finished is there as it said;
//   - the daemon knows every run that it took;
//   - no two sessions had a trainer at the same time;
//   - no process is left.
// With --mixed four runs of one job compete: two seeds into a folder each, a third seed into the folder of the first, and
// one that only tunes. Then also: each command ended in a run of its own, and no checkpoint or half a file is left.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "tests/faults/evidence.hpp"
#include "tests/faults/processes.hpp"
#include "tests/integration/scene.hpp"

namespace {

using namespace autotuned;
using Clock = std::chrono::steady_clock;

// Who may be killed, by the first argument of its program.
const faults::Role kProgram{"program", "autotuned", "run"};
const faults::Role kDaemon{"daemon", "autotuned", "serve"};
const faults::Role kSession{"session", "autotuned", "session-process"};
const faults::Role kTrainer{"trainer", "fake_trainer", ""};

constexpr int kMostAttempts = 60;

// One command, given again and again until it ends well.
struct Command {
  std::string recipe;
  std::vector<std::string> options;
  Outcome outcome;
  std::vector<std::string> said;  // of finished trials, over all attempts

  void run(const Scene& scene, const std::atomic<int>& kills) {
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      const int kills_before = kills;
      std::vector<std::string> arguments = {"run", recipe, "--json"};
      arguments.insert(arguments.end(), options.begin(), options.end());
      outcome = scene.start(arguments).finish();
      for (std::string& line : faults::said_trials(outcome))
        said.push_back(std::move(line));
      if (outcome.code == 0) return;
      const std::string end = "exit code " + std::to_string(outcome.code);
      if (kills == kills_before) {
        faults::report_wrong(end + " although nothing was killed: " + outcome.err);
      }
      if (outcome.code != 128 + SIGKILL && outcome.err.empty()) {
        faults::report_wrong(end + " without a message");
      }
    }
  }

  void check(bool was_trainer_killed) const {
    if (options.empty()) {
      faults::check_right(outcome, recipe);
    } else if (get_string(outcome.json(), "state").value_or("") != "finished") {
      faults::report_wrong(recipe + ": did not end right: " + outcome.err);
    }
    // A trial whose trainer was killed is the candidate's failure, as far as anybody can tell.
    if (was_trainer_killed || outcome.code != 0) return;
    const double speedup = outcome.json().at("best").at("speedup").get<double>();
    if (std::abs(speedup - 1.56) > 0.03) {
      faults::report_wrong(recipe + ": speed-up " + std::to_string(speedup));
    }
  }
};

// A daemon that is started again whenever it was killed, as systemd does.
class KeptDaemon {
 public:
  explicit KeptDaemon(const Scene& scene) : scene_(&scene) {
    thread_ = std::thread([this] {
      while (!is_stopping_) {
        const Outcome outcome = scene_->start({"serve"}).finish();
        note_runs(outcome.err);
        if (outcome.code != 128 + SIGKILL && !is_stopping_) {
          faults::report_wrong("the daemon ended with " + std::to_string(outcome.code) + ": " +
                               outcome.err);
          return;
        }
      }
    });
    // Until it answers a run would do its work itself.
    while (faults::wrong() == 0 && scene.command({"status"}).code != 0) {
    }
  }

  // Nothing is killed any more. Every run that a daemon wrote of in its log was on disk by then.
  void stop() {
    Outcome status;
    do {
      status = scene_->command({"status", "--json"});
    } while (status.code != 0 && faults::wrong() == 0);
    is_stopping_ = true;
    if (const Outcome stopped = scene_->command({"stop"}); stopped.code != 0) {
      faults::report_wrong("the daemon does not stop: " + stopped.err);
    }
    thread_.join();
    if (faults::wrong() > 0) return;
    std::set<std::int64_t> known;
    const Json told = status.json();
    for (const Json& job : told.at("jobs"))
      known.insert(job.at("id").get<std::int64_t>());
    for (const std::int64_t job : submitted_) {
      if (!known.contains(job))
        faults::report_wrong("the daemon forgot run " + std::to_string(job));
    }
    runs_ = submitted_.size();
  }
  // How many it did, once it is stopped: commands that find none running do theirs themselves.
  [[nodiscard]] std::size_t runs() const { return runs_; }

 private:
  void note_runs(const std::string& log) {
    static const std::regex kSubmitted("job_submitted job=([0-9]+)");
    for (std::sregex_iterator found(log.begin(), log.end(), kSubmitted), end; found != end; ++found)
      submitted_.insert(std::stoll((*found)[1]));
  }

  const Scene* scene_;
  std::set<std::int64_t> submitted_;  // by the thread, until it ends
  std::size_t runs_ = 0;
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
};

class Round {
 public:
  Round(std::mt19937_64& random, Clock::duration length, bool has_daemon, bool is_mixed)
      : random_(&random),
        length_(length),
        victims_{has_daemon ? kDaemon : kProgram, kSession, kTrainer} {
    if (has_daemon) daemon_.emplace(scene_);
    const std::string recipe = scene_.folder().read("recipe.yaml");
    commands_.push_back({(scene_.folder() / "recipe.yaml").string(), {}, {}, {}});
    if (!is_mixed) {
      add_command("other.yaml", changed(recipe, {{"name: small", "name: other"},
                                                 {"hidden: 16", "hidden: 32"},
                                                 {"/out'", "/out2'"}}));
      return;
    }
    add_command("seed2.yaml", changed(recipe, {{"/out'", "/out2'"}}) + "seed: 2\n");
    add_command("seed3.yaml", recipe + "seed: 3\n");
    commands_.push_back({commands_.front().recipe, {"--tune-only"}, {}, {}});
  }

  // Returns how often it hit.
  int run(int most_kills, std::map<std::string, int>& hits) {
    std::atomic<std::size_t> done = 0;
    std::vector<std::thread> threads;
    for (Command& command : commands_) {
      threads.emplace_back([&] {
        command.run(scene_, kills_);
        ++done;
      });
    }
    bool was_trainer_killed = false;
    for (int i = 0; i < most_kills && done < commands_.size(); ++i) {
      std::this_thread::sleep_for(length_ * std::uniform_real_distribution(0.0, 1.0)(*random_));
      const faults::Role& victim = victims_[(*random_)() % victims_.size()];
      look();
      // Counted first: a command that ends because of it must find it counted.
      ++kills_;
      if (faults::kill_one(scene_.folder().path(), victim, *random_)) {
        ++hits[victim.name];
        ++hit_;
        was_trainer_killed = was_trainer_killed || victim.name == "trainer";
      }
      look();
    }
    for (std::thread& thread : threads)
      thread.join();
    look();
    if (daemon_) daemon_->stop();
    std::vector<std::string> said;
    std::set<std::string> runs;
    for (const Command& command : commands_) {
      command.check(was_trainer_killed);
      said.insert(said.end(), command.said.begin(), command.said.end());
      runs.insert(get_string(command.outcome.json(), "run").value_or(""));
    }
    if (runs.size() != commands_.size()) faults::report_wrong("two commands share a run");
    check_folders();
    faults::check_whole(scene_, "afterwards");
    faults::check_said(said, seen_, "afterwards");
    if (!scene_.all_ended()) faults::report_wrong("a process is left");
    return hit_;
  }

  // How many runs its daemon took.
  [[nodiscard]] std::size_t submitted() const { return daemon_ ? daemon_->runs() : 0; }

 private:
  using Changes = std::vector<std::pair<std::string, std::string>>;
  static std::string changed(std::string recipe, const Changes& changes) {
    for (const auto& [from, to] : changes)
      recipe.replace(recipe.find(from), from.size(), to);
    return recipe;
  }
  void add_command(const std::string& file, const std::string& recipe) {
    commands_.push_back({scene_.folder().write(file, recipe).string(), {}, {}, {}});
  }

  // All have ended: there is nothing to go on with any more.
  void check_folders() const {
    for (const char* folder : {"out", "out2"}) {
      if (!std::filesystem::exists(scene_.folder() / folder / "model.pt")) {
        faults::report_wrong(std::string("there is no model in ") + folder);
      }
      for (const auto& entry : std::filesystem::directory_iterator(scene_.folder() / folder)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("checkpoint-") || name.starts_with(".autotuned-")) {
          faults::report_wrong("left in " + std::string(folder) + ": " + name);
        }
      }
    }
  }

  // What must hold at every moment.
  void look() {
    auto now = faults::finished_trials(scene_);
    faults::check_kept(seen_, now, "after a kill");
    seen_ = std::move(now);
    if (const std::string both = faults::double_booking(scene_.folder().path(), kTrainer);
        !both.empty()) {
      faults::report_wrong("the device is booked twice: " + both);
    }
  }

  Scene scene_;
  std::vector<Command> commands_;
  std::optional<KeptDaemon> daemon_;
  std::mt19937_64* random_;
  Clock::duration length_;
  std::vector<faults::Role> victims_;
  faults::Trials seen_;
  std::atomic<int> kills_ = 0;
  int hit_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  int kills = 1000;
  std::uint64_t seed = std::random_device()();
  bool has_daemon = false;
  bool is_mixed = false;
  CLI::App app{"Kills programs, sessions and trainers at random moments"};
  app.add_option("--kills", kills)->capture_default_str();
  app.add_option("--seed", seed, "Random unless given");
  app.add_flag("--daemon", has_daemon, "Runs go through a daemon, which is killed too");
  app.add_flag("--mixed", is_mixed, "Runs of one job with several seeds and output folders");
  CLI11_PARSE(app, argc, argv);
  testing::InitGoogleTest();
  std::mt19937_64 random(seed);

  const auto start = Clock::now();
  {
    const Scene whole;
    if (whole.run().code != 0) faults::report_wrong("a run without kills fails");
  }
  const Clock::duration length = Clock::now() - start;
  int hit = 0;
  int rounds = 0;
  std::size_t submitted = 0;
  std::map<std::string, int> hits;
  while (hit < kills && faults::wrong() == 0) {
    Round round(random, length, has_daemon, is_mixed);
    hit += round.run(std::min(10, kills - hit), hits);
    submitted += round.submitted();
    ++rounds;
    if (rounds % 20 == 0) std::printf("%d kills in %d rounds\n", hit, rounds);
    std::fflush(stdout);
  }
  std::string by_victim;
  for (const auto& [victim, count] : hits)
    by_victim += (by_victim.empty() ? "" : ", ") + std::to_string(count) + " " + victim;
  if (has_daemon) by_victim += "; " + std::to_string(submitted) + " runs by a daemon";
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%d kills (%s) in %d rounds of %s runs, seed %llu, %.0f s: %d wrong\n", hit,
              by_victim.c_str(), rounds, is_mixed ? "four" : "two",
              static_cast<unsigned long long>(seed), seconds, faults::wrong());
  return faults::wrong() == 0 ? 0 : 1;
}
