// SPDX-License-Identifier: Apache-2.0
// `autotuned` as a user runs it, in a home of its own: history, locks, output and temporary files are all
// below one folder.
#pragma once

#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/process/process.hpp"
#include "tests/daemon/trainers/fake_scene.hpp"

namespace autotuned {

struct Outcome {
  int code = 0;  // 128 + signal when one ended it
  std::string out;
  std::string err;

  // The last line of standard output; null when it is no JSON.
  [[nodiscard]] Json json() const;
};

// A program that runs; the destructor ends it.
class Running {
 public:
  Running(const std::vector<std::string>& command, const std::vector<std::string>& environment);

  // Reads standard error until `text` is in it. False when it ended before.
  bool wait_for(const std::string& text);
  // Takes what it has written so far: one that nobody reads stops once its pipes are full.
  void take_output();
  Outcome finish();
  void signal(int number);
  void end_at_once();  // SIGKILL, and waits for it
  [[nodiscard]] pid_t pid() const { return process_->pid(); }

 private:
  bool read_some(int timeout_ms = -1);  // false: nothing came

  std::optional<Process> process_;
  Descriptor out_;
  Descriptor err_;
  Outcome outcome_;
};

class Scene {
 public:
  // `tune` and `data` are lines of the recipe; the default lets two plugins propose.
  Scene() : Scene(fast_job(nullptr)) {}
  explicit Scene(const Json& behaviour);

  // Releasing gradients gives 30 %, keeping memory (which needs another trainer) 20 %. `faults`: one of the trainers, or a list.
  [[nodiscard]] static Json fast_job(const Json& faults = nullptr);

  void write_recipe(const std::string& tune = "", const std::string& top = "") const;
  // Another job: model, data, training and what else `lines` say. `output` follows the folder in its map.
  void write_job(const std::string& lines, const std::string& output = "") const;
  [[nodiscard]] std::filesystem::path recipe() const { return folder() / "recipe.yaml"; }
  [[nodiscard]] std::filesystem::path history() const { return folder() / "state/history.db"; }
  [[nodiscard]] const TemporaryFolder& folder() const { return fake_.folder(); }
  [[nodiscard]] const FakeScene& fake() const { return fake_; }
  [[nodiscard]] static std::string fixture(const std::string& name);

  // From here on commands obey the modes of files, even when the tests run as root, for whom otherwise
  // every file is writable.
  void obey_permissions();
  // `variable` replaces NAME=value of the program's environment.
  void set(const std::string& variable);
  // The trainer with LibTorch instead of the fake one.
  void use_real_trainer();
  // The same, with copies of these trainer libraries of fixture plugins in the folder that is returned.
  std::filesystem::path use_trainer_plugins(const std::vector<std::string>& names);
  // Only the copies: the fake trainer takes their knobs, and runs no code of theirs.
  std::filesystem::path add_trainer_plugins(const std::vector<std::string>& names) const;
  // A YAML plugin that proposes `changes` ("KNOB: VALUE", each in a line of a list) until they have been tried, whatever the
  // job is like. Returns the folder of plugins.
  std::filesystem::path write_plugin(const std::string& name, const std::string& changes) const;
  [[nodiscard]] Running start(const std::vector<std::string>& arguments) const;
  // With SIGHUP ignored.
  [[nodiscard]] Running start_with_nohup(const std::vector<std::string>& arguments) const;
  // With SIGINT ignored, as a shell without job control starts a background job.
  [[nodiscard]] Running start_in_background(const std::vector<std::string>& arguments) const;
  [[nodiscard]] Outcome command(const std::vector<std::string>& arguments) const;
  // run --json of the recipe with these options.
  [[nodiscard]] Outcome run(const std::vector<std::string>& options = {}) const;
  [[nodiscard]] Running start_run(const std::vector<std::string>& options = {}) const;
  // The same, and waits until standard error has `text`.
  [[nodiscard]] Running start_run_until(const std::string& text,
                                        const std::vector<std::string>& options = {}) const;

  // Waits until every process of this scene has ended; false when one does not.
  [[nodiscard]] bool all_ended() const;
  // Those of this scene that run now.
  [[nodiscard]] std::vector<pid_t> trainers() const;
  // SIGKILL to a trainer of this scene; false when there is none.
  [[nodiscard]] bool kill_trainer() const;
  // The session process that `program` started; -1 when there is none.
  [[nodiscard]] pid_t session_of(pid_t program) const;
  // SIGKILL to it; false when there is none.
  [[nodiscard]] bool kill_session(pid_t program) const;
  // Runs in the history, newest first, and the trials of the newest.
  [[nodiscard]] Json runs() const;
  [[nodiscard]] Json last_run() const;

 private:
  [[nodiscard]] std::vector<int> processes() const;
  // The first process of this executable that `parent` (-1: anybody) started; -1 when there is none.
  [[nodiscard]] pid_t find_one(const std::string& executable, pid_t parent) const;

  FakeScene fake_;
  std::vector<std::string> environment_;
  bool obeys_permissions_ = false;
};

// Two runs on one device: `holder` has it until the gate of `first` opens, `waiter` has said that it waits for it.
struct RunsOnOneDevice {
  RunsOnOneDevice();

  Scene first;
  Scene second;
  std::optional<Running> holder;
  std::optional<Running> waiter;
};

// A command ended with `code`.
void expect_code(int code, const Outcome& outcome,
                 std::source_location place = std::source_location::current());
// The same, and gives it back.
[[nodiscard]] Outcome ended(int code, Outcome outcome,
                            std::source_location place = std::source_location::current());
// The JSON of a command that ended with `code`.
[[nodiscard]] Json result_of(const Outcome& outcome, int code = 0,
                             std::source_location place = std::source_location::current());

// The trials of `run --json` or `show --json` that ended so.
[[nodiscard]] std::vector<Json> trials_with(const Json& run, const std::string& verdict);

}  // namespace autotuned
