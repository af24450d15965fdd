// SPDX-License-Identifier: Apache-2.0
// A large history: how long the commands that read it take, and what storing one more trial costs.
//
//   history FILE [--trials N] [--program PATH]
//   history --check [--program PATH]
//
// Fills FILE once (a million trials, 50 to a run, of 500 jobs on 4 kinds of machine) and keeps it. With --check it does
// each thing once with few trials in a file that it removes: figures of that say only that it works.
#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/process/process.hpp"
#include "storage/history.hpp"

namespace {

using namespace autotuned;
using Clock = std::chrono::steady_clock;

constexpr int kTrialsPerRun = 50;
constexpr std::int64_t kTrialsOfCheck = 2000;

struct Repeats {
  int commits = 2000;
  int readings = 20;
};

// Time within syncs since it was last set to zero.
Clock::duration in_syncs{};

}  // namespace

// Takes the place of the C library's for SQLite, which syncs with nothing else.
extern "C" __attribute__((visibility("default"))) int fdatasync(int file) {
  const auto start = Clock::now();
  const auto outcome = ::syscall(SYS_fdatasync, file);
  in_syncs += Clock::now() - start;
  return static_cast<int>(outcome);
}

namespace {

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void must(const Result<void>& outcome) {
  if (!outcome) throw std::runtime_error(outcome.error().message());
}

Configuration configuration(std::int64_t workers) {
  Configuration configuration;
  for (const char* knob : {"optimizer.set_to_none", "optimizer.fused", "loader.pin_memory"})
    configuration.set(knob, false);
  configuration.set("loader.workers", workers);
  configuration.set("batch_size", std::int64_t{32});
  configuration.set("precision.autocast", std::string("off"));
  return configuration;
}

TrialRecord trial(int number) {
  TrialRecord trial;
  trial.number = number;
  trial.plugin = "num_workers";
  trial.reference = configuration(0);
  trial.change.set("loader.workers", std::int64_t{2});
  trial.risk = "exact";
  trial.proposal_reason = "the step waits 31 % of its time for data";
  trial.verdict = Verdict::accepted;
  trial.reason = "20 % faster, and the parameters are equal after 12 steps";
  trial.estimate = {.ratio = 1.2, .low = 1.1, .high = 1.3, .pairs = 7};
  trial.started_unix_ns = 1'700'000'000'000'000'000 + number;
  return trial;
}

storage::RunRow run_row(const std::string& id) {
  storage::RunRow run;
  run.id = {id};
  run.recipe_hash = "h1";
  run.recipe_name = "job1";
  run.environment_key = "e1";
  run.state = storage::RunState::finished;
  run.recipe = {
      {"name", "job1"}, {"model", {{"type", "resnet18"}}}, {"notes", std::string(1500, 'x')}};
  run.starting = configuration(0);
  run.best = configuration(2);
  run.started_unix_ns = 1'700'000'000'000'000'000;
  return run;
}

TrialBlock block(int pair, bool is_candidate) {
  return {.pair = pair,
          .is_candidate = is_candidate,
          .is_first = true,
          .block = {.start_ns = 10,
                    .duration_ns = 100'000'000,
                    .steps = 12,
                    .samples = 384,
                    .first_loss = 2.3,
                    .last_loss = 2.1}};
}

// One run as the program stores it; then copies of its rows, in SQL because that takes seconds.
void fill(const std::filesystem::path& file, std::int64_t trials) {
  {
    auto opened = storage::History::open(file, storage::Access::read_write);
    if (!opened) throw std::runtime_error(opened.error().message());
    storage::History& history = *opened;
    for (const char* key : {"e1", "e2", "e3", "e4"})
      must(history.put_environment({key, Json::object(), "2.11.0", "bench"}));
    for (int job = 1; job <= 500; ++job) {
      must(history.put_recipe(
          {"h" + std::to_string(job), "job" + std::to_string(job), "", Json::object()}));
    }
    must(history.put_run(run_row("pattern")));
    for (int number = 1; number <= kTrialsPerRun; ++number) {
      must(history.put_trial({"pattern"}, trial(number)));
      for (const bool is_candidate : {false, true})
        must(history.put_block({{"pattern"}, number}, block(1, is_candidate)));
    }
  }
  SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
  database.exec("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000");
  const auto columns_of = [&](const std::string& table) {
    std::string columns;
    SQLite::Statement names(database, "SELECT name FROM pragma_table_info('" + table + "')");
    while (names.executeStep())
      columns += (columns.empty() ? "" : ", ") + names.getColumn(0).getString();
    return columns;
  };
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    if (at == std::string::npos) throw std::runtime_error("no column " + from);
    return text.replace(at, from.size(), to);
  };
  const std::int64_t runs = std::max<std::int64_t>(1, trials / kTrialsPerRun);
  database.exec(
      "CREATE TEMP TABLE copies AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 "
      "FROM n WHERE i < " +
      std::to_string(runs) + ") SELECT i FROM n");
  const std::string name = "printf('r-%08d-%06x', 20260101 + i / 100, (i * 2654435761) & 16777215)";
  std::string run_columns = replaced(columns_of("runs"), "sequence", "NULL");
  run_columns = replaced(run_columns, " id,", " " + name + ",");
  run_columns = replaced(run_columns, "recipe_hash", "'h' || (1 + i % 500)");
  run_columns = replaced(run_columns, "recipe_name", "'job' || (1 + i % 500)");
  run_columns = replaced(run_columns, "environment_key", "'e' || (1 + i % 4)");
  run_columns = replaced(run_columns, "started_unix_ns", "started_unix_ns + i * 60000000000");
  database.exec("BEGIN; INSERT INTO runs SELECT " + run_columns +
                " FROM copies, runs WHERE id = 'pattern' ORDER BY i");
  for (const std::string table : {"trials", "blocks"}) {
    const std::string columns = replaced(columns_of(table), "run_id", name);
    database.exec("INSERT INTO " + table + " SELECT " + columns + " FROM copies, " + table +
                  " WHERE run_id = 'pattern' ORDER BY i");
  }
  database.exec("COMMIT");
}

struct Figures {
  double median = 0;
  double p99 = 0;
  double longest = 0;
};

Figures figures_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {values[values.size() / 2], values[values.size() * 99 / 100], values.back()};
}

// What one trial stores: its row before it starts, two blocks, its row when it ends.
void measure_commits(const std::filesystem::path& file, int commits) {
  auto opened = storage::History::open(file, storage::Access::read_write);
  if (!opened) throw std::runtime_error(opened.error().message());
  storage::History& history = *opened;
  const std::string id = "r-bench-" + std::to_string(::getpid());
  must(history.put_run(run_row(id)));
  std::vector<double> whole;
  std::vector<double> without_sync;
  const auto measure = [&](const auto& store) {
    in_syncs = {};
    const auto start = Clock::now();
    store();
    const auto took = Clock::now() - start;
    whole.push_back(milliseconds(took));
    without_sync.push_back(milliseconds(took - in_syncs));
  };
  for (int number = 1; number <= commits; ++number) {
    TrialRecord running = trial(number);
    running.verdict = Verdict::running;
    measure([&] { must(history.put_trial({id}, running)); });
    for (const bool is_candidate : {false, true})
      measure([&] { must(history.put_block({{id}, number}, block(1, is_candidate))); });
    measure([&] { must(history.put_trial({id}, trial(number))); });
  }
  for (const auto& [what, values] :
       {std::pair{"with its sync", &whole}, std::pair{"apart from its sync", &without_sync}}) {
    const Figures figures = figures_of(*values);
    std::printf("%-44s median %.3f ms, 99th percentile %.3f ms, longest %.3f ms\n",
                (std::string("one commit, ") + what).c_str(), figures.median, figures.p99,
                figures.longest);
  }
}

// On a machine that others use, more to be trusted than the clock.
double children_cpu_ms() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

void measure_command(const std::filesystem::path& program, const std::filesystem::path& file,
                     int readings, std::vector<std::string> arguments) {
  std::string name;
  for (const std::string& argument : arguments)
    name += (name.empty() ? "" : " ") + argument;
  arguments.insert(arguments.end(), {"--history", file.string()});
  std::vector<double> took;
  const double cpu_before = children_cpu_ms();
  for (int i = 0; i < readings; ++i) {
    ProcessSpec spec;
    spec.program = program;
    spec.arguments = arguments;
    spec.environment = environment_of({"PATH", "HOME", "LANG"});
    spec.log = "/dev/null";
    const auto start = Clock::now();
    auto process = Process::start(spec);
    if (!process) throw std::runtime_error(process.error().message());
    const auto exit = process->wait(std::chrono::nanoseconds(-1));
    took.push_back(milliseconds(Clock::now() - start));
    if (!exit || exit->code != 0) throw std::runtime_error("failed: " + name);
  }
  const Figures figures = figures_of(took);
  std::printf("%-44s median %.1f ms, longest %.1f ms, %.1f ms of CPU\n", name.c_str(),
              figures.median, figures.longest, (children_cpu_ms() - cpu_before) / readings);
}

// The exit code.
int measure(const std::filesystem::path& program, std::filesystem::path file, std::int64_t trials,
            const Repeats& repeats) {
  try {
    if (!std::filesystem::exists(file)) {
      const auto start = Clock::now();
      fill(file, trials);
      std::printf("filled in %.0f s\n", milliseconds(Clock::now() - start) / 1000);
    }
    file = std::filesystem::absolute(file);
    {
      SQLite::Database database(file.string());
      const auto count = [&](const std::string& table) {
        const auto rows = database.execAndGet("SELECT count(*) FROM " + table).getInt64();
        return static_cast<long long>(rows);
      };
      std::printf("%lld trials of %lld runs, %.0f MB\n", count("trials"), count("runs"),
                  static_cast<double>(std::filesystem::file_size(file)) / 1e6);
    }
    const auto history = storage::History::open(file, storage::Access::read_only);
    if (!history) throw std::runtime_error(history.error().message());
    const auto newest = history->runs({.limit = 1000});
    const std::string old = newest->back().id.text;
    measure_command(program, file, repeats.readings, {"history", "--limit", "0"});
    measure_command(program, file, repeats.readings, {"history"});
    measure_command(program, file, repeats.readings, {"history", "--json"});
    measure_command(program, file, repeats.readings, {"history", "--recipe", "job7"});
    measure_command(program, file, repeats.readings, {"history", "--recipe", "unknown"});
    measure_command(program, file, repeats.readings, {"history", "--machine", "e3"});
    measure_command(program, file, repeats.readings, {"history", "--plugin", "num_workers"});
    measure_command(program, file, repeats.readings, {"history", "--plugin", "unknown"});
    measure_command(program, file, repeats.readings, {"history", "--verdict", "failed"});
    measure_command(program, file, repeats.readings, {"history", "--since", "2023-11-20"});
    measure_command(program, file, repeats.readings, {"show", "last"});
    measure_command(program, file, repeats.readings, {"show", old});
    measure_command(program, file, repeats.readings, {"show", old.substr(0, old.size() - 1)});
    measure_command(program, file, repeats.readings, {"show", old + ".7"});
    measure_command(program, file, repeats.readings, {"explain", old});
    const auto start = Clock::now();
    const auto earlier = history->earlier_trials("e1", "h1", 200);
    std::printf("%-44s %.1f ms\n", "earlier trials, asked by a session once",
                milliseconds(Clock::now() - start));
    if (!earlier) throw std::runtime_error(earlier.error().message());
    measure_commits(file, repeats.commits);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path file;
  std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "autotuned";
  std::int64_t trials = 1'000'000;
  bool is_check = false;
  CLI::App app{"Measures a large history"};
  auto* const named = app.add_option("FILE", file);
  app.add_flag("--check", is_check, "Does each thing once")->excludes(named);
  app.add_option("--trials", trials)->capture_default_str();
  app.add_option("--program", program)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (file.empty() && !is_check) {
    std::fputs("history: name a FILE, or --check\n", stderr);
    return 2;
  }
  const Repeats repeats = is_check ? Repeats{.commits = 10, .readings = 1} : Repeats{};
  std::string folder = (std::filesystem::temp_directory_path() / "autotuned-XXXXXX").string();
  if (is_check) {
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    file = std::filesystem::path(folder) / "history.db";
    trials = kTrialsOfCheck;
  }
  const int code = measure(program, file, trials, repeats);
  if (is_check) std::filesystem::remove_all(folder);
  return code;
}
