// SPDX-License-Identifier: Apache-2.0
#include "tests/daemon/trainers/fake_behaviour.hpp"

#include <sched.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <thread>

#include "base/file.hpp"

namespace autotuned {

namespace {

// "optimizer.set_to_none=on".
bool has_setting(const Json& configuration, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  const Json& value = member(configuration, setting.substr(0, equals).c_str());
  const auto known = knob_value_from(value);
  return known && to_text(*known) == setting.substr(equals + 1);
}

}  // namespace

std::string read_text(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path part = file.string() + ".part";
  std::ofstream(part, std::ios::binary) << text;
  std::filesystem::rename(part, file);
}

int parent_of(int process) {
  const std::string stat = read_text("/proc/" + std::to_string(process) + "/stat");
  return std::atoi(stat.c_str() + stat.rfind(')') + 4);
}

FakeBehaviour::FakeBehaviour(const std::filesystem::path& file)
    : record_(file.parent_path() / "requests.jsonl"), behaviour_(Json::parse(read_text(file))) {}

double FakeBehaviour::number(const char* field, double otherwise) const {
  return behaviour_.value(field, otherwise);
}

Json FakeBehaviour::knobs() const {
  return behaviour_.value(
      "knobs", Json{"batch_size", "layout.memory_format", "loader.prefetch_batches",
                    "loader.workers", "memory.malloc", "optimizer.fused", "optimizer.set_to_none",
                    "precision.autocast", "threads.intra_op", "transfer.dtype"});
}

Json FakeBehaviour::metrics(const Json& configuration) const {
  Json metrics = {{"step.duration_ns", 8e6},          {"step.samples", 8},
                  {"step.data_wait_ratio", 0.3},      {"step.zero_grad_ratio", 0.1},
                  {"operators.gemm_conv_ratio", 0.5}, {"operators.fill_ratio", 0.1},
                  {"memory.peak_host_bytes", 1e6},    {"cpu.utilization_ratio", 0.5},
                  {"gradients.complete", 1}};
  if (has_setting(configuration, "optimizer.set_to_none=on")) metrics["step.zero_grad_ratio"] = 0.0;
  metrics.update(behaviour_.value("metrics", Json::object()));
  return metrics;
}

double FakeBehaviour::rate(const Json& configuration, const std::string& reuse) const {
  double rate = number("rate", 1000);
  const Json factors = behaviour_.value("factors", Json::object());
  for (const auto& [setting, factor] : factors.items()) {
    if (has_setting(configuration, setting)) rate *= factor.get<double>();
  }
  if (!reuse.empty()) {
    rate *= behaviour_.value("reuse", Json{{"device_batch", 4.0}}).value(reuse, 0.0);
  }
  std::seed_seq seed{static_cast<int>(number("seed", 1)), static_cast<int>(line_)};
  std::mt19937 generator(seed);
  return rate * std::exp(number("noise", 0.005) * std::normal_distribution<>()(generator));
}

Json FakeBehaviour::one_time(const Json& configuration) const {
  const Json costs = behaviour_.value("one_time", Json::object());
  for (const auto& [setting, cost] : costs.items()) {
    if (has_setting(configuration, setting)) return cost;
  }
  return {0, 0};
}

int FakeBehaviour::prepare_lasts_ms(const Json& configuration) const {
  const Json times = behaviour_.value("prepare_lasts_ms", Json::object());
  for (const auto& [setting, lasts_ms] : times.items()) {
    if (has_setting(configuration, setting)) return lasts_ms.get<int>();
  }
  return 0;
}

std::string FakeBehaviour::trace() const {
  if (behaviour_.contains("trace")) return read_text(behaviour_.at("trace").get<std::string>());
  Json events = Json::array();
  const auto add = [&](const char* category, const std::string& name, int start_us) {
    events.push_back({{"ph", "X"},
                      {"cat", category},
                      {"name", name},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", start_us},
                      {"dur", 1000}});
  };
  for (int step = 0; step < 2; ++step) {
    add("user_annotation", "ProfilerStep#" + std::to_string(step), 1000 * step);
    add("cpu_op", "aten::relu", 1000 * step);
  }
  return Json{{"schemaVersion", 1}, {"traceEvents", events}}.dump();
}

Json FakeBehaviour::with_test(const Json& request, const Json& configuration, Json block) const {
  if (!request.contains("test_samples")) return block;
  double loss = 0.5;
  const Json losses = behaviour_.value("test_losses", Json::object());
  for (const auto& [setting, other] : losses.items()) {
    if (has_setting(configuration, setting)) loss = other.get<double>();
  }
  block["test"] = {{"samples", request.at("test_samples")}, {"loss", loss}, {"accuracy", 0.75}};
  return block;
}

Json FakeBehaviour::comparison(const Json& candidate, const std::string& base) const {
  bool equal = true;
  for (const char* field : {"not_equal", "late_not_equal"}) {
    if (field == std::string("late_not_equal") && base != "reached") continue;
    for (const Json& setting : behaviour_.value(field, Json::array()))
      equal = equal && !has_setting(candidate, setting);
  }
  Json update = {{"name", "weight"},
                 {"reference_norm", 1.0},
                 {"candidate_norm", 1.0},
                 {"norm_ratio", 1.0},
                 {"cosine", 1.0}};
  const Json updates = behaviour_.value("updates", Json::object());
  for (const auto& [setting, changed] : updates.items()) {
    if (has_setting(candidate, setting)) update.update(changed);
  }
  return {{"equal", equal}, {"finite", true}, {"parameters", Json::array({update})}};
}

std::int64_t FakeBehaviour::count_lines() {
  struct stat found {};
  if (stat(record_.c_str(), &found) != 0) return 0;
  // Another file, where a test has forgotten the requests so far.
  if (found.st_ino != counted_inode_ || found.st_size < counted_bytes_) {
    counted_inode_ = found.st_ino;
    counted_bytes_ = 0;
    counted_lines_ = 0;
  }
  std::string more(static_cast<std::size_t>(found.st_size - counted_bytes_), '\0');
  std::ifstream input(record_, std::ios::binary);
  input.seekg(counted_bytes_);
  input.read(more.data(), static_cast<std::streamsize>(more.size()));
  more.resize(static_cast<std::size_t>(input.gcount()));
  counted_bytes_ += static_cast<std::int64_t>(more.size());
  counted_lines_ += std::ranges::count(more, '\n');
  return counted_lines_;
}

Json FakeBehaviour::fault_at(const std::string& request, const Json& configuration,
                             const Json& fields) {
  line_ = count_lines() + 1;
  Json line = fields;
  line["request"] = request;
  line["trainer"] = getpid();
  line["session"] = getppid();
  line["line"] = line_;
  line["unix_ns"] = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  if (behaviour_.contains("lock")) {
    line["is_locked"] = !lock_file(behaviour_.at("lock").get<std::string>(), "", false);
  }
  std::ofstream(record_, std::ios::app) << line.dump() << std::endl;
  for (const Json& fault : behaviour_.value("faults", Json::array())) {
    if (fault.contains("at") && fault["at"] != line_) continue;
    if (fault.contains("request") && fault["request"] != request) continue;
    if (fault.contains("step") && fault["step"] != fields.value("step", -1)) continue;
    bool fits = true;
    for (const Json& setting : fault.value("when", Json::array())) {
      fits = fits && has_setting(configuration, setting);
    }
    if (!fits) continue;
    if (fault.value("once", false)) {
      const std::filesystem::path mark =
          record_.parent_path() /
          ("once-" + std::to_string(std::hash<std::string>()(fault.dump())));
      if (std::filesystem::exists(mark)) continue;
      write_text(mark, "");
    }
    return fault;
  }
  return nullptr;
}

void let_child_stop_this_process(int descriptor) {
  const pid_t child = fork();
  if (child == 0) {
    close(descriptor);
    const pid_t parent = getppid();
    kill(parent, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    kill(parent, SIGCONT);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

void leave_orphan(int descriptor) {
  const pid_t orphan = fork();
  if (orphan == 0) {
    setsid();
    close(descriptor);
    for (;;)
      pause();
  }
  while (getpgid(orphan) != orphan)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void change_policies(const std::vector<pid_t>& processes) {
  const sched_param none{};
  for (const pid_t process : processes) {
    const bool is_idle = sched_getscheduler(process) == SCHED_IDLE;
    if (sched_setscheduler(process, is_idle ? SCHED_BATCH : SCHED_IDLE, &none) != 0) {
      std::_Exit(94);
    }
  }
}

}  // namespace autotuned
