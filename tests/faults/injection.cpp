// SPDX-License-Identifier: Apache-2.0
// Fault injection, long form: a first run of program and session records every place from which they
// call the system or ask for memory (injector.cpp); then each place fails once, with each error that it
// could meet, one run for each. The run must end clearly, nothing that was acknowledged may be lost, and
// the same command without the fault must then end right. With --daemon it is the places of a daemon,
// from its start to its end, and the run goes through it.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "tests/faults/evidence.hpp"
#include "tests/faults/processes.hpp"
#include "tests/integration/scene.hpp"
#include "tests/places.hpp"

namespace {

using namespace autotuned;

const std::string kInjector = tests::build_folder() / "tests/faults/libfault_injector.so";
constexpr std::chrono::seconds kHung{120};

struct Named {
  int number;
  const char* name;
};
constexpr Named kNoSpace{ENOSPC, "ENOSPC"};
constexpr Named kFailing{EIO, "EIO"};
constexpr Named kNoMemory{ENOMEM, "ENOMEM"};
constexpr Named kTooMany{EMFILE, "EMFILE"};

// The errors that a function can meet.
std::vector<Named> errors_of(const std::string& function) {
  static const std::map<std::string, std::vector<Named>> kErrors = {
      {"read", {kFailing}},
      {"pread64", {kFailing}},
      {"recv", {kNoMemory}},
      {"send", {kNoMemory}},
      {"write", {kNoSpace, kFailing}},
      {"writev", {kNoSpace, kFailing}},
      {"pwrite64", {kNoSpace, kFailing}},
      {"fsync", {kFailing, kNoSpace}},
      {"fdatasync", {kFailing, kNoSpace}},
      {"ftruncate", {kFailing, kNoSpace}},
      {"ftruncate64", {kFailing, kNoSpace}},
      {"rename", {kFailing, kNoSpace}},
      {"mkdir", {kFailing, kNoSpace}},
      {"mknod", {kFailing, kNoSpace}},
      {"unlink", {kFailing}},
      {"open", {kTooMany, kFailing, kNoMemory}},
      {"open64", {kTooMany, kFailing, kNoMemory}},
      {"openat", {kTooMany, kFailing}},
      {"open+create", {kTooMany, kFailing, kNoSpace}},
      {"open64+create", {kTooMany, kFailing, kNoSpace}},
      {"opendir", {kTooMany, kNoMemory}},
      {"readdir", {kFailing}},
      {"fopen64", {kTooMany, kNoMemory}},
      {"mmap64", {kNoMemory}},
      {"posix_spawn", {kNoMemory}},
      {"malloc", {kNoMemory}},
      {"calloc", {kNoMemory}},
      {"realloc", {kNoMemory}}};
  const auto found = kErrors.find(function);
  return found == kErrors.end() ? std::vector<Named>{kTooMany} : found->second;
}

struct Fault {
  std::string site;
  std::string function;
  std::string frames;
  Named error{};
  [[nodiscard]] std::string text() const {
    return std::string(error.name) + " at " + function + " " + site + " (" + frames + ")";
  }
};

// Kills a process that goes on for too long.
class Watchdog {
 public:
  explicit Watchdog(Running& watched) : thread_([this, &watched] { watch(watched); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  [[nodiscard]] bool has_bitten() const { return has_bitten_; }

 private:
  void watch(Running& watched) {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, kHung, [this] { return is_over_; })) return;
    has_bitten_ = true;
    watched.signal(SIGKILL);
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::atomic<bool> has_bitten_ = false;
  std::thread thread_;
};

Outcome run_before_deadline(const Scene& scene, bool& has_hung) {
  Running running = scene.start_run({"--verbose"});
  const Watchdog watchdog(running);
  Outcome outcome = running.finish();
  has_hung = watchdog.has_bitten();
  return outcome;
}

// What a client was told, which holds from then on. Numbers of the queue; empty: it was not told.
struct Acknowledged {
  std::string submitted;
  bool has_finished = false;  // that one
  std::string cancelled;
};

// The number that was given to it.
std::string detach(const Scene& scene) {
  const Outcome outcome = scene.command({"run", scene.recipe().string(), "--detach", "--json"});
  return outcome.code == 0 ? outcome.json().at("job").dump() : "";
}

// What a client asks besides.
Acknowledged ask_everything(const Scene& scene) {
  Acknowledged told;
  told.submitted = detach(scene);
  if (!told.submitted.empty()) {
    told.has_finished = scene.command({"attach", told.submitted}).code == 0;
  }
  static_cast<void>(scene.command({"status", "--json"}));
  const std::string another = detach(scene);
  if (!another.empty() && scene.command({"cancel", another}).code == 0) told.cancelled = another;
  return told;
}

// Every place that a run without faults passes, once for each error.
std::vector<Fault> find_faults(bool has_daemon) {
  Scene scene;
  const auto record = scene.folder() / "places";
  scene.set("LD_PRELOAD=" + kInjector);
  scene.set("AUTOTUNED_FAULT_RECORD=" + record.string());
  if (has_daemon) {
    Running daemon = scene.start({"serve"});
    scene.set("LD_PRELOAD=");
    if (!daemon.wait_for(" serving ")) faults::report_wrong("the daemon does not serve");
    faults::check_right(scene.run(), "recording");
    const Acknowledged told = ask_everything(scene);
    if (!told.has_finished || told.cancelled.empty()) {
      faults::report_wrong("recording: a run was not done, or one not cancelled");
    }
    static_cast<void>(scene.command({"stop"}));
    if (daemon.finish().code != 0) faults::report_wrong("the daemon does not end well");
  } else {
    faults::check_right(scene.run(), "recording");
  }
  std::vector<Fault> found;
  std::set<std::string> known;
  std::istringstream lines(scene.folder().read("places"));
  Fault fault;
  while (lines >> fault.site >> fault.function && std::getline(lines >> std::ws, fault.frames)) {
    if (!known.insert(fault.site).second) continue;
    for (const Named& error : errors_of(fault.function)) {
      fault.error = error;
      found.push_back(fault);
    }
  }
  return found;
}

struct Tally {
  int runs = 0;
  int passed_over = 0;  // the run went on and ended right
  int failed = 0;       // the run ended with an error
  int not_reached = 0;  // this run never came to that place
};

// What a run that ended right leaves in its folder.
void check_results(const Scene& scene, const std::string& where) {
  const auto is_there = [&](const char* name) { return !scene.folder().read(name).empty(); };
  if (!is_there("out/best.yaml") || !is_there("out/model.pt") ||
      !parse_json(scene.folder().read("out/summary.json"), "summary.json")) {
    faults::report_wrong(where + ": exit code 0 without all of its results");
  }
}

// From here on programs meet the fault. The file that is made when it happens.
std::filesystem::path arm(Scene& scene, const Fault& fault) {
  const auto mark = scene.folder() / "mark";
  for (const std::string& variable :
       {"LD_PRELOAD=" + kInjector, "AUTOTUNED_FAULT_SITE=" + fault.site,
        "AUTOTUNED_FAULT_FUNCTION=" + fault.function,
        "AUTOTUNED_FAULT_ERRNO=" + std::to_string(fault.error.number),
        "AUTOTUNED_FAULT_MARK=" + mark.string()}) {
    scene.set(variable);
  }
  return mark;
}

// It must have ended by itself, with an exit code that is documented and a message.
void check_end(const Outcome& outcome, bool has_hung, const std::string& where) {
  if (has_hung) return faults::report_wrong(where + ": hung: " + outcome.err);
  constexpr std::array kKnown = {0, 1, 2, 4};
  if (std::ranges::find(kKnown, outcome.code) == kKnown.end()) {
    faults::report_wrong(where + ": exit code " + std::to_string(outcome.code) + ": " +
                         outcome.err);
  }
  // Told on standard error, except that a refused recipe is told on standard output with --json.
  const bool is_told = outcome.err.find("error") != std::string::npos ||
                       outcome.out.find("\"message\"") != std::string::npos;
  if (outcome.code != 0 && !is_told) {
    faults::report_wrong(where + ": no message, but: " + outcome.err + outcome.out);
  }
}

// What was acknowledged must still hold, and be done now if it was not done before.
void check_acknowledged(const Scene& scene, const Acknowledged& told, const std::string& where) {
  if (!told.submitted.empty()) {
    const Outcome end = scene.command({"attach", told.submitted});
    // One that failed because of the fault stays so.
    const bool is_right = end.code == 0 || (end.code == 1 && !told.has_finished);
    if (!is_right) {
      faults::report_wrong(where + ": run " + told.submitted + " was taken, and now ends with " +
                           std::to_string(end.code) + ": " + end.err);
    }
  }
  if (!told.cancelled.empty()) {
    const Outcome end = scene.command({"attach", told.cancelled});
    if (end.code != 130) {
      faults::report_wrong(where + ": run " + told.cancelled +
                           " was cancelled, and now ends with " + std::to_string(end.code) + ": " +
                           end.err);
    }
  }
}

// A session that crashed and was started again ends right too, but it did crash.
void check_crashes(const Outcome& outcome, const std::string& where) {
  for (const char* crash : {"signal 11", "signal 6", "signal 7", "signal 8"}) {
    if (outcome.err.find(crash) != std::string::npos) {
      faults::report_wrong(where + ": a process crashed: " + outcome.err);
    }
  }
}

// The next daemon must know what the one before had acknowledged, and do the run.
void check_next_daemon(const Scene& scene, const Acknowledged& told, const std::string& where) {
  Running next = scene.start({"serve"});
  const Watchdog watchdog(next);
  if (!next.wait_for(" serving ")) {
    return faults::report_wrong(where + ": the next daemon does not serve: " + next.finish().err);
  }
  for (const Json& job : member(scene.command({"status", "--json"}).json(), "jobs"))
    static_cast<void>(scene.command({"attach", job.at("id").dump()}));
  check_acknowledged(scene, told, where);
  bool hangs_again = false;
  faults::check_right(run_before_deadline(scene, hangs_again), where + ", again");
  if (scene.command({"stop"}).code != 0 || next.finish().code != 0) {
    faults::report_wrong(where + ": the next daemon does not end well");
  }
}

void try_daemon_fault(const Fault& fault, Tally& tally) {
  Scene scene;
  const auto mark = arm(scene, fault);
  Running daemon = scene.start({"serve"});
  scene.set("LD_PRELOAD=");
  bool has_hung = false;
  Outcome run;
  Outcome ended;
  Acknowledged told;
  const std::string where = fault.text();
  ++tally.runs;
  {
    const Watchdog watchdog(daemon);
    if (daemon.wait_for(" serving ")) {
      run = run_before_deadline(scene, has_hung);
      check_end(run, has_hung, where + ", run");
      told = ask_everything(scene);
      static_cast<void>(scene.command({"stop"}));
    }
    ended = daemon.finish();
    check_end(ended, watchdog.has_bitten(), where + ", daemon");
  }
  if (!std::filesystem::exists(mark)) {
    ++tally.not_reached;
    return;
  }
  const faults::Trials before = faults::finished_trials(scene);
  if (static_cast<int>(before.size()) < faults::said_finished(run)) {
    faults::report_wrong(where + ": fewer trials are finished than were said to be");
  }
  if (run.code == 0 && ended.code == 0) {
    ++tally.passed_over;
    faults::check_right(run, where);
    check_results(scene, where);
    check_crashes(run, where);
  } else {
    ++tally.failed;
  }
  check_next_daemon(scene, told, where);
  faults::check_kept(before, faults::finished_trials(scene), where);
  faults::check_whole(scene, where);
  if (!scene.all_ended()) faults::report_wrong(where + ": a process is left");
}

void try_fault(const Fault& fault, Tally& tally) {
  Scene scene;
  const auto mark = arm(scene, fault);
  bool has_hung = false;
  const Outcome outcome = run_before_deadline(scene, has_hung);
  ++tally.runs;
  const std::string where = fault.text();
  check_end(outcome, has_hung, where);
  if (!std::filesystem::exists(mark)) {
    ++tally.not_reached;
    return;
  }
  scene.set("LD_PRELOAD=");
  const faults::Trials before = faults::finished_trials(scene);
  if (static_cast<int>(before.size()) < faults::said_finished(outcome)) {
    faults::report_wrong(where + ": fewer trials are finished than were said to be");
  }
  if (outcome.code == 0) {
    ++tally.passed_over;
    faults::check_right(outcome, where);
    check_results(scene, where);
    check_crashes(outcome, where);
  } else {
    ++tally.failed;
    bool hangs_again = false;
    const Outcome again = run_before_deadline(scene, hangs_again);
    faults::check_right(again, where + ", again");
    faults::check_kept(before, faults::finished_trials(scene), where);
  }
  faults::check_whole(scene, where);
  if (!scene.all_ended()) faults::report_wrong(where + ": a process is left");
}

// One line for each fault that was tried; with a file of them a long series can be gone on with.
class Journal {
 public:
  explicit Journal(const std::string& file) : output_(file, std::ios::app) {
    std::ifstream input(file);
    for (std::string line; std::getline(input, line);)
      done_.insert(line);
  }
  [[nodiscard]] bool has(const Fault& fault) const { return done_.contains(fault.text()); }
  void add(const Fault& fault) { output_ << fault.text() << std::endl; }

 private:
  std::set<std::string> done_;
  std::ofstream output_;
};

}  // namespace

int main(int argc, char** argv) {
  std::size_t most = 0;
  std::uint64_t seed = std::random_device()();
  std::string only;
  std::string site;
  std::string journal_file;
  bool is_list = false;
  bool has_daemon = false;
  CLI::App app{"Fails every call of program and session, one in each run"};
  app.add_option("--most", most, "Only so many, by chance");
  app.add_option("--seed", seed, "Random unless given");
  app.add_option("--only", only, "memory or system")->check(CLI::IsMember({"memory", "system"}));
  app.add_option("--site", site, "Only this place");
  app.add_option("--journal", journal_file, "Pass over the faults in this file, and add to it");
  app.add_flag("--daemon", has_daemon, "The places of a daemon that does the run");
  app.add_flag("--list", is_list, "Print the faults, and try none");
  CLI11_PARSE(app, argc, argv);
  testing::InitGoogleTest();

  std::vector<Fault> found = find_faults(has_daemon);
  const auto is_memory = [](const Fault& fault) { return fault.function.ends_with("alloc"); };
  if (!only.empty()) {
    std::erase_if(found,
                  [&](const Fault& fault) { return is_memory(fault) != (only == "memory"); });
  }
  if (!site.empty()) std::erase_if(found, [&](const Fault& fault) { return fault.site != site; });
  const std::size_t all = found.size();
  const auto places = [&] {
    std::set<std::string> sites;
    for (const Fault& fault : found)
      sites.insert(fault.site);
    return sites.size();
  }();
  if (is_list) {
    for (const Fault& fault : found)
      std::printf("%s\n", fault.text().c_str());
    return 0;
  }
  if (most > 0 && most < found.size()) {
    std::mt19937_64 random(seed);
    std::ranges::shuffle(found, random);
    found.resize(most);
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Tally tally;
  Journal journal(journal_file);
  std::erase_if(found, [&](const Fault& fault) { return journal.has(fault); });
  for (const Fault& fault : found) {
    if (has_daemon) {
      try_daemon_fault(fault, tally);
    } else {
      try_fault(fault, tally);
    }
    journal.add(fault);
    if (tally.runs % 50 == 0) {
      std::printf("%d of %zu\n", tally.runs, found.size());
      std::fflush(stdout);
    }
  }
  std::printf(
      "%zu faults at %zu places found, %d tried now: %d passed over, %d ended the run, "
      "%d not reached; %d wrong\n",
      all, places, tally.runs, tally.passed_over, tally.failed, tally.not_reached, faults::wrong());
  return faults::wrong() == 0 && tally.runs > tally.not_reached ? 0 : 1;
}
