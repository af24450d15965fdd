// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/scene.hpp"
#include "tests/places.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace autotuned {

namespace {

const std::string kProgram = tests::build_folder() / "bin/autotuned";

struct Pipe {
  Descriptor reading;
  Descriptor writing;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// 0 when it is gone.
pid_t parent_of(pid_t process) {
  std::ifstream input("/proc/" + std::to_string(process) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(input), {}};
  // "7 (name) S 1 ...", where the name may hold anything.
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos ? 0 : std::atoi(stat.c_str() + name_end + 4);
}

// The name of the file that it runs; "" when it is gone.
std::string executable_of(pid_t process) {
  std::error_code gone;
  return std::filesystem::read_symlink("/proc/" + std::to_string(process) + "/exe", gone)
      .filename();
}

// Appends what there is; false at the end of the stream.
bool read_into(const Descriptor& from, std::string& text) {
  std::array<char, 4096> bytes{};
  const ssize_t count = read(from.get(), bytes.data(), bytes.size());
  if (count > 0) text.append(bytes.data(), static_cast<std::size_t>(count));
  return count > 0;
}

}  // namespace

Json Outcome::json() const {
  const std::size_t end = out.find_last_not_of('\n');
  if (end == std::string::npos) return nullptr;
  const std::size_t start = out.rfind('\n', end);
  auto value = parse_json(out.substr(start == std::string::npos ? 0 : start + 1), "output");
  EXPECT_TRUE(value) << out;
  return value ? *value : Json();
}

Running::Running(const std::vector<std::string>& command,
                 const std::vector<std::string>& environment) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  ProcessSpec spec;
  spec.program = command.at(0);
  spec.arguments.assign(command.begin() + 1, command.end());
  spec.environment = environment;
  spec.descriptors = {{out.writing.get(), STDOUT_FILENO}, {err.writing.get(), STDERR_FILENO}};
  auto process = Process::start(spec);
  if (!process) throw std::runtime_error(process.error().message());
  process_.emplace(std::move(*process));
  out_ = std::move(out.reading);
  err_ = std::move(err.reading);
}

bool Running::read_some(int timeout_ms) {
  if (!out_.is_open() && !err_.is_open()) return false;
  std::array<pollfd, 2> polled{{{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}}};
  if (poll(polled.data(), polled.size(), timeout_ms) <= 0) return false;
  if (polled[0].revents != 0 && !read_into(out_, outcome_.out)) out_.reset();
  if (polled[1].revents != 0 && !read_into(err_, outcome_.err)) err_.reset();
  return out_.is_open() || err_.is_open();
}

bool Running::wait_for(const std::string& text) {
  while (outcome_.err.find(text) == std::string::npos) {
    if (!read_some()) return outcome_.err.find(text) != std::string::npos;
  }
  return true;
}

void Running::take_output() {
  while (read_some(0)) {
  }
}

Outcome Running::finish() {
  while (read_some()) {
  }
  const auto exit = process_->wait(std::chrono::nanoseconds(-1));
  outcome_.code = exit->signal != 0 ? 128 + exit->signal : exit->code;
  return outcome_;
}

void Running::signal(int number) {
  kill(process_->pid(), number);
}

void Running::end_at_once() {
  signal(SIGKILL);
  finish();
}

Json Scene::fast_job(const Json& faults) {
  Json job = {{"factors", {{"optimizer.set_to_none=on", 1.3}, {"memory.malloc=keep", 1.2}}}};
  if (!faults.is_null()) job["faults"] = faults.is_array() ? faults : Json::array({faults});
  return job;
}

Scene::Scene(const Json& behaviour) : fake_(behaviour) {
  for (const char* name : {"run", "tmp", "data"}) {
    std::filesystem::create_directory(folder() / name);
    chmod((folder() / name).c_str(), 0700);
  }
  environment_ = {"PATH=/usr/bin:/bin",
                  "LANG=C.UTF-8",
                  "HOME=" + folder().path().string(),
                  "TMPDIR=" + (folder() / "tmp").string(),
                  "XDG_RUNTIME_DIR=" + (folder() / "run").string(),
                  "AUTOTUNED_LOCKS=" + (folder() / "run").string(),
                  "XDG_DATA_HOME=" + (folder() / "data").string(),
                  "XDG_STATE_HOME=" + (folder() / "xdg-state").string(),
                  "AUTOTUNED_HISTORY=" + history().string(),
                  "AUTOTUNED_TRAINER=" + fake_.trainer().string()};
  for (const std::string& sanitizer :
       environment_of({"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"})) {
    environment_.push_back(sanitizer);
  }
  write_recipe();
}

void Scene::write_recipe(const std::string& tune, const std::string& top) const {
  folder().write("recipe.yaml",
                 "autotuned: 1\n"
                 "name: small\n"
                 "device: cpu\n"
                 "model: {type: mlp, hidden: 16, classes: 4}\n"
                 "data: {type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}\n"
                 "optimizer: {type: sgd, lr: 0.1}\n"
                 "train: {epochs: 1, batch_size: 8}\n" +
                     top +
                     // What plugin set_to_none then proposes to change.
                     "start: {optimizer.set_to_none: off}\n"
                     "tune:\n" +
                     (tune.empty() ? "  plugins: [set_to_none, memory_malloc]\n" : tune) +
                     "output: {dir: '" + (folder() / "out").string() + "'}\n");
}

void Scene::write_job(const std::string& lines, const std::string& output) const {
  folder().write("recipe.yaml", "autotuned: 1\nname: small\ndevice: cpu\n" + lines +
                                    "output: {dir: '" + (folder() / "out").string() + "'" + output +
                                    "}\n");
}

std::string Scene::fixture(const std::string& name) {
  return tests::build_folder() / "tests/fixture_plugins" / name;
}

void Scene::set(const std::string& variable) {
  const std::string name = variable.substr(0, variable.find('=') + 1);
  std::erase_if(environment_, [&](const std::string& old) { return old.starts_with(name); });
  environment_.push_back(variable);
}

void Scene::use_real_trainer() {
  set("AUTOTUNED_TRAINER=" + (tests::build_folder() / "bin/autotuned-trainer").string());
}

std::filesystem::path Scene::write_plugin(const std::string& name,
                                          const std::string& changes) const {
  std::filesystem::create_directories(folder() / "plugins");
  folder().write("plugins/" + name + ".yaml",
                 "plugin: 1\nname: " + name +
                     "\nversion: '1'\nsummary: Proposes what a test wants.\ntry:\n  - " + changes +
                     "\nexpect: 3\nreason: a test\n");
  return folder() / "plugins";
}

std::filesystem::path Scene::use_trainer_plugins(const std::vector<std::string>& names) {
  use_real_trainer();
  return add_trainer_plugins(names);
}

std::filesystem::path Scene::add_trainer_plugins(const std::vector<std::string>& names) const {
  const std::filesystem::path plugins = folder() / "plugins";
  std::filesystem::create_directory(plugins);
  for (const std::string& name : names) {
    const std::string file = "lib" + name + "_trainer.so";
    std::filesystem::copy_file(fixture(name) + "/" + file, plugins / file);
  }
  return plugins;
}

void Scene::obey_permissions() {
  obeys_permissions_ = true;
}

Running Scene::start(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = {kProgram};
  if (obeys_permissions_ && geteuid() == 0) {
    command = {"/usr/bin/setpriv", "--bounding-set=-dac_override,-dac_read_search",
               "--inh-caps=-dac_override,-dac_read_search", kProgram};
  }
  command.insert(command.end(), arguments.begin(), arguments.end());
  return {command, environment_};
}

Running Scene::start_with_nohup(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = {"/usr/bin/nohup", kProgram};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return {command, environment_};
}

Running Scene::start_in_background(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = {"/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh", kProgram};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return {command, environment_};
}

Outcome Scene::command(const std::vector<std::string>& arguments) const {
  return start(arguments).finish();
}

Running Scene::start_run(const std::vector<std::string>& options) const {
  std::vector<std::string> arguments = {"run", recipe().string(), "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return start(arguments);
}

Running Scene::start_run_until(const std::string& text,
                               const std::vector<std::string>& options) const {
  Running running = start_run(options);
  EXPECT_TRUE(running.wait_for(text)) << text;
  return running;
}

Outcome Scene::run(const std::vector<std::string>& options) const {
  return start_run(options).finish();
}

bool Scene::all_ended() const {
  for (const int number : processes()) {
    const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, number, 0)));
    if (process.is_open() && !wait_readable(process.get(), std::chrono::seconds(20))) return false;
  }
  return true;
}

std::vector<pid_t> Scene::trainers() const {
  std::vector<pid_t> found = processes();
  std::erase_if(found, [](pid_t process) {
    const std::string executable = executable_of(process);
    return executable != "fake_trainer" && executable != "autotuned-trainer";
  });
  return found;
}

bool Scene::kill_trainer() const {
  for (const char* program : {"fake_trainer", "autotuned-trainer"}) {
    const pid_t found = find_one(program, -1);
    if (found > 0) return kill(found, SIGKILL) == 0;
  }
  return false;
}

bool Scene::kill_session(pid_t program) const {
  const pid_t found = session_of(program);
  return found > 0 && kill(found, SIGKILL) == 0;
}

pid_t Scene::session_of(pid_t program) const {
  return find_one("autotuned", program);
}

pid_t Scene::find_one(const std::string& executable, pid_t parent) const {
  for (const int number : processes()) {
    if (executable_of(number) != executable) continue;
    if (parent < 0 || parent_of(number) == parent) return number;
  }
  return -1;
}

// Those whose environment names our folder.
std::vector<int> Scene::processes() const {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream input(entry.path() / "environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(input), {}};
    if (environment.find(folder().path().string()) != std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

Json Scene::runs() const {
  return command({"history", "--json"}).json();
}

Json Scene::last_run() const {
  return command({"show", "last", "--json"}).json();
}

RunsOnOneDevice::RunsOnOneDevice()
    : first(Scene::fast_job({{"do", "pause"}, {"request", "train"}})) {
  // The lock is the device's: the same folder of locks, two histories.
  second.set("AUTOTUNED_LOCKS=" + (first.folder() / "run").string());
  holder = first.start_run_until("\ntuned ");
  waiter = second.start_run_until("waiting: ");
}

void expect_code(int code, const Outcome& outcome, std::source_location place) {
  const testing::ScopedTrace asked(place.file_name(), static_cast<int>(place.line()), "");
  EXPECT_EQ(outcome.code, code) << outcome.err;
}

Outcome ended(int code, Outcome outcome, std::source_location place) {
  expect_code(code, outcome, place);
  return outcome;
}

Json result_of(const Outcome& outcome, int code, std::source_location place) {
  expect_code(code, outcome, place);
  return outcome.json();
}

std::vector<Json> trials_with(const Json& run, const std::string& verdict) {
  std::vector<Json> found;
  for (const Json& trial : member(run, "trials")) {
    if (trial.at("verdict") == verdict) found.push_back(trial);
  }
  return found;
}

}  // namespace autotuned
