// SPDX-License-Identifier: Apache-2.0
// Fault injection, long form: a first run of program and session records every place from which they
// call the system or ask for memory (injector.cpp); then each place fails once, with each error that it
// could meet, one run for each. The run must end clearly, nothing that was acknowledged may be lost, and
// the same command without the fault must then end right.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
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

Outcome run_before_deadline(const Scene& scene, bool& has_hung) {
  Running running = scene.start_run();
  std::mutex mutex;
  std::condition_variable ended;
  bool is_over = false;
  std::thread watchdog([&] {
    std::unique_lock lock(mutex);
    if (ended.wait_for(lock, kHung, [&] { return is_over; })) return;
    has_hung = true;
    running.signal(SIGKILL);
  });
  Outcome outcome = running.finish();
  {
    const std::lock_guard lock(mutex);
    is_over = true;
  }
  ended.notify_one();
  watchdog.join();
  return outcome;
}

// Every place that a run without faults passes, once for each error.
std::vector<Fault> find_faults() {
  Scene scene;
  const auto record = scene.folder() / "places";
  scene.set("LD_PRELOAD=" + kInjector);
  scene.set("AUTOTUNED_FAULT_RECORD=" + record.string());
  faults::check_right(scene.run(), "recording");
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

void try_fault(const Fault& fault, Tally& tally) {
  Scene scene;
  const auto mark = scene.folder() / "mark";
  for (const std::string& variable :
       {"LD_PRELOAD=" + kInjector, "AUTOTUNED_FAULT_SITE=" + fault.site,
        "AUTOTUNED_FAULT_FUNCTION=" + fault.function,
        "AUTOTUNED_FAULT_ERRNO=" + std::to_string(fault.error.number),
        "AUTOTUNED_FAULT_MARK=" + mark.string()}) {
    scene.set(variable);
  }
  bool has_hung = false;
  const Outcome outcome = run_before_deadline(scene, has_hung);
  ++tally.runs;
  const std::string where = fault.text();
  if (has_hung) faults::report_wrong(where + ": hung: " + outcome.err);
  constexpr std::array kKnown = {0, 1, 2, 4};
  if (!has_hung && std::ranges::find(kKnown, outcome.code) == kKnown.end()) {
    faults::report_wrong(where + ": exit code " + std::to_string(outcome.code) + ": " +
                         outcome.err);
  }
  // Told on standard error, except that a refused recipe is told on standard output with --json.
  const bool is_told = outcome.err.find("error") != std::string::npos ||
                       outcome.out.find("\"message\"") != std::string::npos;
  if (outcome.code != 0 && !is_told) {
    faults::report_wrong(where + ": no message, but: " + outcome.err + outcome.out);
  }
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
    // A session that crashed and was started again ends right too, but it did crash.
    for (const char* crash : {"signal 11", "signal 6", "signal 7", "signal 8"}) {
      if (outcome.err.find(crash) != std::string::npos) {
        faults::report_wrong(where + ": a process crashed: " + outcome.err);
      }
    }
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

}  // namespace

int main(int argc, char** argv) {
  std::size_t most = 0;
  std::uint64_t seed = std::random_device()();
  std::string only;
  std::string site;
  bool is_list = false;
  CLI::App app{"Fails every call of program and session, one in each run"};
  app.add_option("--most", most, "Only so many, by chance");
  app.add_option("--seed", seed, "Random unless given");
  app.add_option("--only", only, "memory or system")->check(CLI::IsMember({"memory", "system"}));
  app.add_option("--site", site, "Only this place");
  app.add_flag("--list", is_list, "Print the faults, and try none");
  CLI11_PARSE(app, argc, argv);
  testing::InitGoogleTest();

  std::vector<Fault> found = find_faults();
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
  for (const Fault& fault : found) {
    try_fault(fault, tally);
    if (tally.runs % 50 == 0) {
      std::printf("%d of %zu\n", tally.runs, found.size());
      std::fflush(stdout);
    }
  }
  std::printf(
      "%zu faults at %zu places found, %d tried: %d passed over, %d ended the run, %d not reached; "
      "%d wrong\n",
      all, places, tally.runs, tally.passed_over, tally.failed, tally.not_reached, faults::wrong());
  return faults::wrong() == 0 && tally.runs > tally.not_reached ? 0 : 1;
}
