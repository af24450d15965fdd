// SPDX-License-Identifier: Apache-2.0
// kill -9, long form: two runs compete for one device, and program, session or trainer of either is
// killed at random moments; with --daemon both are in the queue of one daemon, which is killed instead of
// the program and started again. The same commands are given again until they end, and then:
//   - every run ended right, each proposal decided once;
//   - no trial that was ever seen finished is missing, changed or there twice, and every trial that a program
//     said to be finished is there as it said;
//   - each command ended in a run of its own, with the seed, length and output folder that it asked for, and no run is left
//     unfinished;
//   - no training went back behind its checkpoint, and none was continued with another seed or length;
//   - no result that was ever seen is missing, each folder has those of its runs, and no checkpoint or half a file is left;
//   - the daemon knows every run that it took;
//   - no two sessions had a trainer at the same time;
//   - no process is left.
// With --mixed five runs of one job compete: one, and the four commands that are close to it: without training, of another
// length, with another seed, and with that seed into another folder.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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

constexpr int kMaxAttempts = 60;
// One kill in so many meets any process of its kind; the others meet one of the run that has the device.
constexpr int kOneInSoManyIsAny = 4;

// What a command asks for beside its job.
struct Asked {
  int seed = 1;
  int epochs = 1;
  std::string folder = "out";  // below the scene's
  bool is_tune_only = false;
};

// One command, given again and again until it ends well.
struct Command {
  std::string recipe;
  std::vector<std::string> options;
  Asked asked;
  Outcome outcome;
  std::vector<std::string> said;  // of finished trials, over all attempts
  bool has_lost_plugin = false;   // one was taken for the reason of two deaths

  void run(const Scene& scene, const std::atomic<int>& kills) {
    for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
      const int kills_before = kills;
      std::vector<std::string> arguments = {"run", recipe, "--json", "--verbose"};
      arguments.insert(arguments.end(), options.begin(), options.end());
      outcome = scene.start(arguments).finish();
      for (std::string& line : faults::said_trials(outcome))
        said.push_back(std::move(line));
      has_lost_plugin =
          has_lost_plugin || outcome.err.find("the run goes on without it") != std::string::npos;
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

  [[nodiscard]] std::string run_id() const {
    return get_string(outcome.json(), "run").value_or("");
  }

  // `may_be_slower`: some trial of the job has failed.
  void check(const Scene& scene, bool may_be_slower) const {
    faults::check_right(outcome, recipe, !asked.is_tune_only);
    if (outcome.code != 0) return;
    const double speedup = outcome.json().at("best").at("speedup").get<double>();
    if (!may_be_slower && std::abs(speedup - 1.56) > 0.03) {
      faults::report_wrong(recipe + ": speed-up " + std::to_string(speedup));
    }
    const auto run = faults::stored_run(scene, run_id());
    if (!run) return;
    const Json plan = parse_json(run->plan, "plan").value_or(Json());
    const bool is_asked_for =
        get_integer(plan, "seed").value_or(0) == asked.seed &&
        get_integer(plan, "epochs").value_or(0) == asked.epochs &&
        get_string(plan, "output").value_or("") == (scene.folder() / asked.folder).string() &&
        run->is_tune_only == asked.is_tune_only;
    if (!is_asked_for) {
      faults::report_wrong(recipe + ": ended in a run of " + run->plan +
                           (run->is_tune_only ? ", without training" : ""));
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

// A training that takes a while, so that kills meet it.
Json job_that_trains() {
  Json behaviour = Scene::fast_job();
  behaviour["train_step_lasts_ms"] = 20;
  return behaviour;
}

struct Kills {
  int count = 0;
  int while_training = 0;
  std::map<std::string, int> by_victim;
};

class Round {
 public:
  Round(std::mt19937_64& random, Clock::duration length, bool has_daemon, bool is_mixed)
      : random_(&random),
        length_(length),
        has_daemon_(has_daemon),
        victims_{has_daemon ? kDaemon : kProgram, kSession, kTrainer} {
    if (has_daemon) daemon_.emplace(scene_);
    const std::string recipe = scene_.folder().read("recipe.yaml");
    add_command("recipe.yaml", recipe, {}, {});
    if (!is_mixed) {
      add_command("other.yaml",
                  changed(recipe, {{"name: small", "name: other"},
                                   {"hidden: 16", "hidden: 32"},
                                   {"/out'", "/out2'"}}),
                  {}, {.folder = "out2"});
      return;
    }
    add_command("recipe.yaml", recipe, {"--tune-only"}, {.is_tune_only = true});
    add_command("long.yaml", changed(recipe, {{"epochs: 1", "epochs: 2"}}), {}, {.epochs = 2});
    add_command("seed.yaml", recipe + "seed: 2\n", {}, {.seed = 2});
    add_command("seed.yaml", recipe + "seed: 2\n",
                {"--output", (scene_.folder() / "out2").string()}, {.seed = 2, .folder = "out2"});
  }

  void run(int most_kills, Kills& kills) {
    std::atomic<std::size_t> done = 0;
    std::vector<std::thread> threads;
    for (Command& command : commands_) {
      threads.emplace_back([&] {
        command.run(scene_, kills_);
        ++done;
      });
    }
    for (int hits = 0; hits < most_kills && done < commands_.size();) {
      std::this_thread::sleep_for(length_ * std::uniform_real_distribution(0.0, 1.0)(*random_));
      const faults::Role& victim = victims_[(*random_)() % victims_.size()];
      // One that only waits for the device has little to lose.
      const bool is_any = (*random_)() % kOneInSoManyIsAny == 0;
      look();
      const auto preferred =
          is_any ? std::set<pid_t>() : faults::at_work(scene_.folder().path(), kSession, kTrainer);
      const bool was_training = faults::last_request(scene_).starts_with("train");
      // Counted first: a command that ends because of it must find it counted.
      ++kills_;
      if (faults::kill_one(scene_.folder().path(), victim, *random_, preferred)) {
        ++hits;
        ++kills.count;
        ++kills.by_victim[victim.name];
        if (was_training) ++kills.while_training;
      }
      look();
    }
    for (std::thread& thread : threads)
      thread.join();
    look();
    if (daemon_) daemon_->stop();
    check();
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
  void add_command(const std::string& file, const std::string& recipe,
                   std::vector<std::string> options, Asked asked) {
    commands_.push_back({.recipe = scene_.folder().write(file, recipe).string(),
                         .options = std::move(options),
                         .asked = std::move(asked),
                         .outcome = {},
                         .said = {}});
  }

  // All have ended.
  void check() const {
    const bool has_failed_trial = std::ranges::any_of(seen_, [](const auto& trial) {
      return get_string(Json::parse(trial.second), "verdict").value_or("") == "failed";
    });
    const bool has_lost_plugin = std::ranges::any_of(commands_, &Command::has_lost_plugin);
    std::vector<std::string> said;
    std::set<std::string> runs;
    std::set<std::string> folders;
    for (const Command& command : commands_) {
      // A trial whose trainer was killed is the candidate's failure, as far as anybody can tell.
      command.check(scene_, has_failed_trial || has_lost_plugin);
      said.insert(said.end(), command.said.begin(), command.said.end());
      runs.insert(command.run_id());
      folders.insert(command.asked.folder);
    }
    if (runs.size() != commands_.size()) faults::report_wrong("two commands share a run");
    faults::check_whole(scene_, "afterwards");
    faults::check_said(said, seen_, "afterwards");
    faults::check_trainings(faults::recorded_requests(scene_), "afterwards");
    // A command that was given again may have left its first run to a daemon that was stopped.
    if (!has_daemon_) faults::check_nothing_unfinished(scene_, "afterwards");
    for (const std::string& folder : folders) {
      faults::check_results(scene_, folder);
      check_nothing_is_left(folder);
    }
    if (!scene_.all_ended()) faults::report_wrong("a process is left");
  }

  // There is nothing to go on with any more.
  void check_nothing_is_left(const std::string& folder) const {
    for (const auto& entry : std::filesystem::directory_iterator(scene_.folder() / folder)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("checkpoint-") || name.starts_with(".autotuned-")) {
        faults::report_wrong("left in " + folder + ": " + name);
      }
    }
  }

  // What must hold at every moment.
  void look() {
    auto now = faults::finished_trials(scene_);
    faults::check_kept(seen_, now, "after a kill");
    seen_ = std::move(now);
    faults::check_files_kept(files_, scene_, "after a kill");
    files_ = faults::kept_files(scene_);
    if (const std::string both = faults::double_booking(scene_.folder().path(), kTrainer);
        !both.empty()) {
      faults::report_wrong("the device is booked twice: " + both);
    }
  }

  Scene scene_{job_that_trains()};
  std::vector<Command> commands_;
  std::optional<KeptDaemon> daemon_;
  std::mt19937_64* random_;
  Clock::duration length_;
  bool has_daemon_;
  std::vector<faults::Role> victims_;
  faults::Trials seen_;
  faults::Files files_;
  std::atomic<int> kills_ = 0;
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
  app.add_flag("--mixed", is_mixed,
               "Runs of one job with several seeds, lengths and output folders");
  CLI11_PARSE(app, argc, argv);
  testing::InitGoogleTest();
  std::mt19937_64 random(seed);

  const auto start = Clock::now();
  {
    const Scene whole{job_that_trains()};
    if (whole.run().code != 0) faults::report_wrong("a run without kills fails");
  }
  const Clock::duration length = Clock::now() - start;
  const int most_in_a_round = is_mixed ? 20 : 10;
  int rounds = 0;
  std::size_t submitted = 0;
  Kills done;
  while (done.count < kills && faults::wrong() == 0) {
    Round round(random, length, has_daemon, is_mixed);
    round.run(std::min(most_in_a_round, kills - done.count), done);
    submitted += round.submitted();
    ++rounds;
    if (rounds % 20 == 0) std::printf("%d kills in %d rounds\n", done.count, rounds);
    std::fflush(stdout);
  }
  std::string by_victim;
  for (const auto& [victim, count] : done.by_victim)
    by_victim += (by_victim.empty() ? "" : ", ") + std::to_string(count) + " " + victim;
  if (has_daemon) by_victim += "; " + std::to_string(submitted) + " runs by a daemon";
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf(
      "%d kills (%s; %d while a trainer trained) in %d rounds of %s runs, seed %llu, %.0f s, %.2f "
      "s "
      "a kill: %d wrong\n",
      done.count, by_victim.c_str(), done.while_training, rounds, is_mixed ? "five" : "two",
      static_cast<unsigned long long>(seed), seconds, seconds / std::max(1, done.count),
      faults::wrong());
  return faults::wrong() == 0 ? 0 : 1;
}
