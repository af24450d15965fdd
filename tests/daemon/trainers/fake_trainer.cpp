// SPDX-License-Identifier: Apache-2.0
// A program that speaks the trainer protocol and simulates a job: blocks take no time and report the
// duration that a model gives. It also misbehaves, where its behaviour file says so.
//
// AUTOTUNED_FAKE names a JSON file, see fake_behaviour.hpp. Beside it the fake appends one line to requests.jsonl for every
// request and every step of training: the test reads there what happened, and the faults count in it.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/frame.hpp"
#include "base/process/process.hpp"
#include "base/process/stopped_process.hpp"
#include "daemon/common/stop_requests.hpp"
#include "tests/daemon/trainers/fake_behaviour.hpp"

namespace {

using autotuned::Configuration;
using autotuned::FakeBehaviour;
using autotuned::Json;

constexpr int kSocket = 3;

class FakeTrainer {
 public:
  FakeTrainer(FakeBehaviour behaviour, autotuned::Descriptor socket)
      : behaviour_(std::move(behaviour)), channel_(std::move(socket)) {}

  int serve() {
    misbehave("hello");
    Json hello = {{"protocol", static_cast<int>(behaviour_.number("protocol", 1))},
                  {"trainer", "fake 1"},
                  {"libtorch", "0.0.0"},
                  {"pid", getpid()},
                  {"devices", devices()},
                  {"device_uuids", behaviour_.uuids()},
                  {"cuda_reason", "it is a fake"},
                  {"knobs", behaviour_.knobs()}};
    if (!channel_.send({{"hello", hello}})) return 1;
    if (behaviour_.number("hangs_after_hello", 0) != 0) hang();
    for (;;) {
      auto request = channel_.receive(std::chrono::nanoseconds(-1));
      if (!request) return 0;  // the session has gone
      if (!request->contains("id")) continue;
      id_ = request->at("id");
      const std::string name = request->at("request");
      is_answered_ = false;
      // As the trainer does, which gives it its name when it is whole.
      if (name == "trace") {
        std::ofstream(request->value("path", "") + ".part") << "unfinished";
      }
      if (name == "load") {
        configuration_ = request->value("configuration", Json::object());
        plan_ = plan_of(request->value("recipe", Json::object()));
      }
      Json fields = *request;
      if (name == "train" || name == "save") fields["plan"] = plan_;
      misbehave(name, std::move(fields));
      if (is_answered_) continue;
      if (name == "load" || name == "run") tell_damage();
      const Json ok = answer_to(name, *request);
      if (!is_answered_) respond({{"id", id_}, {"ok", ok}});
      if (name == "stop") return 0;
    }
  }

 private:
  [[nodiscard]] Json devices() const {
    Json devices = Json::array({"cpu"});
    for (std::size_t i = 0; i < behaviour_.uuids().size(); ++i)
      devices.push_back("cuda:" + std::to_string(i));
    return devices;
  }

  Json answer_to(const std::string& name, const Json& request) {
    if (name == "load") return load(request);
    if (name == "check") {
      return {{"problems", Json::array()},
              {"notes", Json::array()},
              {"parameter_bytes", parameter_bytes()}};
    }
    if (name == "prepare") {
      configuration_ = request.at("configuration");
      std::this_thread::sleep_for(
          std::chrono::milliseconds(behaviour_.prepare_lasts_ms(configuration_)));
      return {{"changed", Json::array()}, {"switch_ns", 0}};
    }
    if (name == "run" || name == "steps" || name == "check_steps") {
      sleep_ms("block_lasts_ms");
      return behaviour_.with_test(request, configuration_, block(request));
    }
    if (name == "profile") {
      return {{"metrics", behaviour_.metrics(configuration_)},
              {"spans", Json::array()},
              {"operators", Json::array()}};
    }
    if (name == "trace") {
      autotuned::write_text(request.at("path"), behaviour_.trace());
      for (const Json& file : request.value("rank_paths", Json::array()))
        autotuned::write_text(file, behaviour_.trace());
      return {{"steps", 2}, {"lost_events", 0}, {"notes", behaviour_.notes()}};
    }
    if (name == "checkpoint") {
      checkpoints_[request.at("name")] = configuration_;
      return {{"bytes", 1}};
    }
    if (name == "round" || name == "renew") {
      checkpoints_[request.at("as")] = configuration_;
      return {{"bytes", 1}};
    }
    if (name == "restore") return Json::object();
    if (name == "drop") {
      checkpoints_.erase(request.at("name").get<std::string>());
      return Json::object();
    }
    if (name == "export") {
      autotuned::write_text(request.at("path"), checkpoints_.at(request.at("name")).dump());
      return {{"bytes", 1}};
    }
    if (name == "import") {
      checkpoints_[request.at("name")] = Json::parse(autotuned::read_text(request.at("path")));
      return Json::object();
    }
    if (name == "digest") return {{"sha256", std::string(64, '0')}};
    if (name == "compare") {
      return behaviour_.comparison(checkpoints_.at(request.at("candidate")), request.at("base"));
    }
    if (name == "train") return train(request);
    if (name == "save") {
      const std::string text = model();
      autotuned::write_text(request.at("path"), text);
      return {{"bytes", text.size()}};
    }
    return Json::object();
  }

  void sleep_ms(const char* field) const {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(static_cast<int>(behaviour_.number(field, 0))));
  }

  [[nodiscard]] std::int64_t parameter_bytes() const {
    return static_cast<std::int64_t>(behaviour_.number("parameter_bytes", 400));
  }

  Json load(const Json& request) {
    configuration_ = request.at("configuration");
    checkpoints_["initial"] = configuration_;
    Json facts = {{"parameters", 100},        {"parameter_bytes", parameter_bytes()},
                  {"has_filters", true},      {"train_samples", 64},
                  {"test_samples", 16},       {"sample_shape", {8}},
                  {"sample_dtype", "uint8"},  {"classes", 4},
                  {"device_memory_bytes", 0}, {"device", behaviour_.device()}};
    if (const Json uuids = behaviour_.uuids(); !uuids.empty()) facts["device_uuid"] = uuids.front();
    return facts;
  }

  Json block(const Json& request) {
    const double batch = configuration_.value("batch_size", 8.0);
    const std::string reuse = request.value("reuse", "");
    const double rate = behaviour_.rate(configuration_, reuse);
    if (rate == 0.0) {
      respond({{"id", id_},
               {"error", {{"kind", "unsupported"}, {"what", "the fake cannot reuse " + reuse}}}});
      return {};
    }
    const double wanted_s = request.value("minimum_ns", 0.0) / 1e9;
    const double steps =
        std::max({std::ceil(wanted_s * rate / batch), request.value("minimum_steps", 1.0),
                  request.value("count", 1.0)});
    const double duration_ns = steps * batch / rate * 1e9;
    Json losses = Json::array();
    for (int i = 0; i < request.value("count", 0); ++i)
      losses.push_back(2.0 - 0.01 * i);
    const Json one_time = behaviour_.one_time(configuration_);
    return {{"start_ns", 1},
            {"end_ns", 1 + static_cast<std::int64_t>(duration_ns)},
            {"duration_ns", static_cast<std::int64_t>(duration_ns)},
            {"steps", static_cast<std::int64_t>(steps)},
            {"samples", static_cast<std::int64_t>(steps * batch)},
            {"first_loss", 2.0},
            {"last_loss", 1.0},
            {"losses", losses},
            {"data_wait_ns", 0},
            {"cpu_ns", 0},
            {"peak_host_memory_bytes", 1000},
            {"peak_device_memory_bytes", 0},
            {"one_time_ns", one_time.at(0)},
            {"one_time_samples", one_time.at(1)}};
  }

  // What tells one training of a job from another, on one line.
  static std::string plan_of(const Json& recipe) {
    const Json train = recipe.value("train", Json::object());
    return "seed " + recipe.value("seed", Json()).dump() + ", epochs " +
           train.value("epochs", Json()).dump() + ", steps " + train.value("steps", Json()).dump();
  }

  // Steps that another plan has trained make it another model.
  std::string model() const {
    std::istringstream steps(trained_);
    int own = 0;
    int others = 0;
    for (std::string plan; std::getline(steps, plan);)
      ++(plan == plan_ ? own : others);
    const std::string text = "trained for " + std::to_string(own + others) + " steps\n";
    return others > 0 ? text + std::to_string(others) + " of them by another plan\n" : text;
  }

  // A checkpoint after every step has a line for each step so far: the plan that it was trained by.
  Json train(const Json& request) {
    configuration_ = request.value("configuration", configuration_);
    const std::string file = request.at("checkpoint_path");
    trained_ = request.at("resume") ? autotuned::read_text(file) : "";
    const int first = static_cast<int>(std::ranges::count(trained_, '\n'));
    const int total = static_cast<int>(behaviour_.number("train_steps", 10));
    const auto duration_ns = std::llround(behaviour_.number("training_ns", 1000));
    Json done = {{"steps", total},        {"samples", total * 8},
                 {"epochs", 1},           {"duration_ns", duration_ns},
                 {"evaluation_ns", 10},   {"final_loss", 0.5},
                 {"test_accuracy", 0.75}, {"test_loss", 0.6},
                 {"cancelled", false},    {"resumed_from_step", first}};
    for (int step = first; step < total; ++step) {
      if (cancel_arrived(0)) {
        done["steps"] = step;
        done["cancelled"] = true;
        return done;
      }
      misbehave("train_step", {{"step", step}, {"checkpoint_path", file}});
      if (is_answered_) return done;
      sleep_ms("train_step_lasts_ms");
      autotuned::write_text(file, trained_ += plan_ + "\n");
      if (behaviour_.number("tells_checkpoints", 0) != 0) {
        progress({{"checkpoint", {{"step", step + 1}, {"bytes", trained_.size()}}}});
      }
      progress({{"step", step + 1},
                {"steps_total", total},
                {"epoch", 1},
                {"epochs_total", 1},
                {"samples", 8 * (step + 1)},
                {"samples_total", 8 * total},
                {"samples_per_second", 100.0},
                {"loss", 0.5}});
    }
    progress({{"evaluation", {{"epoch", 1}, {"accuracy", 0.75}, {"loss", 0.6}, {"samples", 16}}}});
    return done;
  }

  void tell_damage() {
    for (int i = 0; i < static_cast<int>(behaviour_.number("damaged", 0)); ++i) {
      const std::string file = std::to_string(i) + ".jpg";
      progress({{"damaged", {{"file", file}, {"what", "is odd"}, {"files", i + 1}}}});
    }
    if (behaviour_.number("warns", 0) != 0) progress({{"warning", "the cache is full"}});
  }

  void misbehave(const std::string& name, Json fields = Json::object()) {
    if (fields.contains("recipe")) {
      fields["ranks"] = fields["recipe"].value("train", Json::object()).value("ranks", Json());
      fields.erase("recipe");
    }
    const Json fault = behaviour_.fault_at(name, configuration_, fields);
    if (fault.is_null()) return;
    const std::string kind = fault.at("do");
    std::fprintf(stderr, "fake: %s at %s%s\n", kind.c_str(), name.c_str(),
                 fault.value("says", "").c_str());
    const pid_t session = getppid();
    if (kind == "exit") std::_Exit(fault.value("code", 1));
    if (kind == "abort") std::abort();
    // As the kernel does it: it counts first.
    if (kind == "oom_kill") {
      autotuned::write_text(fault.at("counter"), "oom 1\noom_kill 1\n");
      die();
    }
    if (kind == "kill_self") die();
    if (kind == "kill_session") end_all(session);
    if (kind == "kill_program") end_all(autotuned::parent_of(session));
    if (kind == "hang") hang();
    if (kind == "eat") {
      // Children, where there are any, do it in its place.
      for (int i = 0; i < fault.value("children", 0); ++i) {
        if (fork() != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        eat(fault.at("bytes"));
      }
      if (!fault.contains("children")) eat(fault.at("bytes"));
      hang();
    }
    // A child that keeps a CPU busy, in the trainer's group or in one of its own; one that "hides" has no parent of its
    // own and no environment either.
    if (kind == "spin" && fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(kSocket);
      if (fault.value("leaves", false)) setsid();
      if (fault.value("hides", false)) spin_hidden();
      while (getppid() != 0) {
      }
    }
    // Changes the scheduling of other trainers of this session, or of this one. What "leaves" waits in a group of its own until
    // one of them runs.
    if (kind == "yield") autotuned::change_policies({getpid()});
    if (kind == "stop_self") autotuned::let_child_stop_this_process(kSocket);
    if (kind == "slow_siblings") {
      const std::vector<pid_t> siblings = siblings_of(getpid());
      if (!fault.value("leaves", false)) {
        autotuned::change_policies(siblings);
      } else if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(kSocket);
        setsid();
        while (std::ranges::all_of(siblings, autotuned::is_stopped))
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        autotuned::change_policies(siblings);
        std::_Exit(0);
      }
    }
    // A thread that keeps a CPU busy in the trainer itself, to its end or so long.
    if (kind == "stir") {
      std::thread([ms = fault.value("for_ms", 0)] {
        static std::atomic<std::uint64_t> sum = 0;
        const auto begin = std::chrono::steady_clock::now();
        while (ms == 0 || std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(ms))
          ++sum;
      }).detach();
    }
    if (kind == "leave_orphan") autotuned::leave_orphan(kSocket);
    if (kind == "print") {
      const std::string line = std::string(1023, 'x') + "\n";
      for (int left = fault.at("kilobytes"); left > 0; --left)
        std::fputs(line.c_str(), stderr);
      std::fputs("fake: printed\n", stderr);
      if (fault.value("exits", false)) std::_Exit(3);
    }
    if (kind == "progress_forever") {
      while (!fault.value("until_cancel", false) || !cancel_arrived(0))
        progress({{"step", 1}, {"steps_total", 10}});
      const std::string error = fault.value("kind", "cancelled");
      respond({{"id", id_}, {"error", {{"kind", error}, {"what", error}, {"where", "fake"}}}});
    }
    if (kind == "pause") {
      // Until the test opens the other end.
      const autotuned::Descriptor gate(open(behaviour_.gate().c_str(), O_RDONLY));
    }
    if (kind == "garbage") raw(std::string("\x05\0\0\0", 4) + "{what");
    if (kind == "half_frame") raw(std::string("\xff\0\0\0", 4) + "{\"id\": 1");
    if (kind == "half_frame_and_exit") {
      raw(std::string("\xff\0\0\0", 4) + "{\"id\": 1");
      std::_Exit(0);
    }
    if (kind == "half_frame") hang();
    if (kind == "garbage") is_answered_ = true;
    if (kind == "other_id") respond({{"id", id_ + 1000}, {"ok", Json::object()}});
    if (kind == "no_answer_in_it") respond({{"id", id_}});
    if (kind == "empty_ok") respond({{"id", id_}, {"ok", Json::object()}});
    if (kind == "error") {
      const std::string error = fault.at("kind");
      // As the kernel does it before it kills another rank.
      if (fault.contains("counter")) {
        autotuned::write_text(fault.at("counter"), "oom 1\noom_kill 1\n");
      }
      respond({{"id", id_},
               {"error",
                {{"kind", error},
                 {"what", fault.value("what", "the fake says " + error)},
                 {"where", "fake"},
                 {"signal", fault.value("signal", 0)},
                 {"extensions", fault.value("extensions", Json::array())},
                 {"extension_fault", fault.value("extension_fault", "failed")},
                 {"remedy", ""}}}});
    }
    if (kind == "interrupt" || kind == "interrupt_twice" || kind == "await_cancel") {
      const int signal = fault.value("signal", SIGINT);
      if (kind != "await_cancel") kill(autotuned::parent_of(session), signal);
      // GNU timeout sends it to the process, and then to its group.
      if (fault.contains("from_timeout")) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        kill(autotuned::parent_of(session), signal);
      }
      if (!cancel_arrived(-1)) std::_Exit(0);
      if (signal == SIGHUP) kill(autotuned::parent_of(session), SIGHUP);  // as shells do
      if (kind == "interrupt_twice") {
        std::this_thread::sleep_for(1.2 * autotuned::daemon::kOneStop);
        kill(autotuned::parent_of(session), SIGINT);
        hang();
      }
      is_cancelled_ = true;
      if (name == "train_step") return;
      respond({{"id", id_}, {"error", {{"kind", "cancelled"}, {"what", "cancelled"}}}});
    }
  }

  // Blocks until the cancel, the end of the socket (then false) or the time. Remembers.
  bool cancel_arrived(int timeout_ms) {
    if (is_cancelled_) return true;
    pollfd polled{kSocket, POLLIN, 0};
    if (poll(&polled, 1, timeout_ms) <= 0) return false;
    auto frame = channel_.receive(std::chrono::seconds(10));
    if (!frame) std::_Exit(0);
    return is_cancelled_ = !frame->contains("id") && frame->value("request", "") == "cancel";
  }

  [[noreturn]] static void die() {
    raise(SIGKILL);
    std::abort();
  }
  // Whoever loses its parent dies with it: the one at the top takes this process along.
  [[noreturn]] static void end_all(pid_t process) {
    kill(process, SIGKILL);
    hang();
  }
  [[noreturn]] static void eat(std::size_t bytes) {
    std::vector<char> eaten(bytes);
    for (std::size_t at = 0; at < eaten.size(); at += 4096)
      eaten[at] = 1;
    hang();
  }
  // In a child of the trainer: an orphan of it spins while the trainer is its parent, and ends where nobody adopts it.
  [[noreturn]] static void spin_hidden() {
    const pid_t trainer = getppid();
    const pid_t between = getpid();
    if (fork() != 0) std::_Exit(0);
    for (char** variable = environ; *variable != nullptr; ++variable)
      std::memset(*variable, 0, std::strlen(*variable));
    while (getppid() == between) {
    }
    while (getppid() == trainer) {
    }
    std::_Exit(0);
  }
  static std::vector<pid_t> siblings_of(pid_t process) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t other = std::atoi(entry.path().filename().c_str());
      if (other > 0 && other != process &&
          autotuned::parent_of(other) == autotuned::parent_of(process)) {
        found.push_back(other);
      }
    }
    return found;
  }
  [[noreturn]] static void hang() {
    for (;;)
      pause();
  }
  void raw(const std::string& bytes) {
    if (write(kSocket, bytes.data(), bytes.size()) < 0) std::_Exit(1);
  }
  void respond(const Json& frame) {
    if (!channel_.send(frame)) std::_Exit(1);
    is_answered_ = true;
  }
  void progress(const Json& value) {
    if (!channel_.send({{"id", id_}, {"progress", value}})) std::_Exit(1);
  }

  FakeBehaviour behaviour_;
  autotuned::FrameChannel channel_;
  std::int64_t id_ = 0;
  Json configuration_ = Json::object();
  std::map<std::string, Json> checkpoints_;
  std::string plan_;     // of the recipe that is loaded
  std::string trained_;  // the plan of each step of the training so far, a line each
  bool is_answered_ = false;
  bool is_cancelled_ = false;
};

}  // namespace

int main() {
  if (const char* parent = std::getenv("AUTOTUNED_PARENT_PID")) {
    autotuned::die_with_parent(std::atoi(parent));
  }
  autotuned::adopt_orphans();
  const char* file = std::getenv("AUTOTUNED_FAKE");
  if (file == nullptr) {
    std::fputs("fake: AUTOTUNED_FAKE is not set\n", stderr);
    return 2;
  }
  fcntl(kSocket, F_SETFD, FD_CLOEXEC);
  return FakeTrainer(FakeBehaviour(file), autotuned::Descriptor(kSocket)).serve();
}
