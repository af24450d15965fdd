// SPDX-License-Identifier: Apache-2.0
#include "tests/daemon/scripts/fake_agent.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <string>
#include <utility>

#include "base/configuration.hpp"
#include "base/file.hpp"

namespace autotuned {
namespace {

constexpr std::int64_t kStepNs = 4'000'000;
constexpr double kNoise = 0.005;
constexpr std::int64_t kLearning = 8;  // steps until the step is known

bool has_setting(const Json& configuration, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  const auto value = knob_value_from(member(configuration, setting.substr(0, equals).c_str()));
  return value && to_text(*value) == setting.substr(equals + 1);
}

Json error(const std::string& kind, const std::string& what) {
  return {{"kind", kind}, {"what", what}, {"where", "train.py:41"}, {"remedy", ""}};
}

// As somebody else would: what the script itself sends to the command does not come back to it.
void interrupt(pid_t command) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::kill(command, SIGTERM);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

Json own_configuration() {
  return {{"loader.workers", 0},
          {"memory.malloc", "default"},
          {"optimizer.set_to_none", false},
          {"precision.autocast", "off"}};
}

Json knob(const std::string& name, const std::string& type, const std::string& risk) {
  return {{"name", name},
          {"type", type},
          {"default", own_configuration().value(name, Json())},
          {"unit", ""},
          {"risk", risk},
          {"switch", "live"},
          {"warmup_steps", 1},
          {"one_time_cost", ""},
          {"available", true},
          {"unavailable", ""},
          {"summary", "A knob."}};
}

}  // namespace

Json FakeAgent::load() const {
  Json workers = knob("loader.workers", "integer", "exact");
  workers["minimum"] = 0;
  workers["maximum"] = 4;
  workers["unavailable"] = "the loader is iterated by hand";
  Json malloc = knob("memory.malloc", "choice", "exact");
  malloc["choices"] = {"default", "keep"};
  if (behaviour_.contains("once")) malloc["one_time_cost"] = "doing something once";
  Json autocast = knob("precision.autocast", "choice", "numerics");
  autocast["choices"] = {"off", "bf16", "fp16"};
  autocast["unavailable_choices"] = {{"fp16", "needs the loss scaled"}};
  autocast["warmup_steps"] = 3;
  Json benchmark = knob("cudnn.benchmark", "boolean", "numerics");
  benchmark["default"] = false;
  benchmark["switch"] = "restart";
  return {
      {"step", {"batch 0", "forward 0", "backward", "optimizer 0"}},
      {"boundary", "optimizer 0"},
      {"steps", kLearning},
      {"samples_per_step", number("samples_per_step", 8)},
      {"optimizers", {{{"type", "SGD"}, {"parameters", 100}, {"made_at", "train.py:12"}}}},
      {"parameters", 100},
      {"train_samples", 0},
      {"samples_left", number("samples_left", 0)},
      {"most_samples_left", number("most_samples_left", 0)},
      {"most_told_by", "epochs"},
      {"device", "cpu"},
      {"device_memory_bytes", 0},
      {"configuration", own_configuration()},
      {"knobs",
       {workers, malloc, knob("optimizer.set_to_none", "boolean", "exact"), autocast, benchmark}},
      {"checks", {{"twin", ""}}},
      {"notes", behaviour_.value("notes", Json::array())}};
}

Json FakeAgent::run(const Json& request) {
  if (timeouts_ < number("timeouts", 0)) {
    ++timeouts_;
    return {{"error", error("timeout", "no clean step")}};
  }
  if (renewals_ < number("renewals", 0)) {
    ++renewals_;
    step(kLearning);
    configuration_ = own_configuration();
    return {{"error", error("busy", "the script has made its optimizer anew")}};
  }
  const Json faults = behaviour_.value("faults", Json::object());
  for (const auto& [setting, kind] : faults.items()) {
    if (has_setting(configuration_, setting)) {
      return {{"error", error(kind.get<std::string>(), "the forward pass failed")}};
    }
  }
  double rate = 1.0;
  const Json factors = behaviour_.value("factors", Json::object());
  for (const auto& [setting, factor] : factors.items()) {
    if (has_setting(configuration_, setting)) rate *= factor.get<double>();
  }
  std::int64_t once_ns = 0;
  const Json once = behaviour_.value("once", Json::object());
  for (const auto& [setting, taken_ns] : once.items()) {
    if (has_setting(configuration_, setting)) once_ns += taken_ns.get<std::int64_t>();
  }
  rate *= std::exp(kNoise * std::normal_distribution<>()(generator_));
  const auto step_ns = static_cast<std::int64_t>(static_cast<double>(kStepNs) / rate);
  const std::int64_t steps = std::max(request.at("minimum_steps").get<std::int64_t>(),
                                      request.at("minimum_ns").get<std::int64_t>() / step_ns + 1);
  step(steps + request.value("warmup_steps", 0));
  return {{"ok",
           {{"start_ns", 1},
            {"end_ns", 1 + steps * step_ns},
            {"duration_ns", steps * step_ns},
            {"steps", steps},
            {"steps_seen", steps},
            {"samples", steps * number("samples_per_step", 8)},
            {"first_loss", nullptr},
            {"last_loss", 2.1},
            {"losses", Json::array()},
            {"one_time_ns", once_ns}}}};
}

Json FakeAgent::check(const Json& request) {
  const std::int64_t count = request.at("steps");
  const auto has_any = [&](const char* behaviour) {
    const Json settings = behaviour_.value(behaviour, Json::array());
    return std::ranges::any_of(settings, [&](const Json& setting) {
      return has_setting(request.at("configuration"), setting.get<std::string>());
    });
  };
  const bool is_wrong = has_any("wrong");
  const auto input = [](const char* images) {
    return Json{{"labels", "1"}, {"images", images}, {"projections", {0.5, -1.5}}};
  };
  step(count);
  const Json losses = Json(std::vector<double>(static_cast<std::size_t>(count), 2.0));
  const Json parameter = {{"name", "weight"},
                          {"reference_norm", 0.1},
                          {"candidate_norm", 0.1},
                          {"norm_ratio", 1.0},
                          {"cosine", is_wrong ? 0.1 : 1.0}};
  Json answer = {{"method", "twin"},          {"steps", count},
                 {"equal", !is_wrong},        {"finite", true},
                 {"notes", Json::array()},    {"parameters", {parameter}},
                 {"buffers", Json::array()},  {"reference_losses", losses},
                 {"candidate_losses", losses}};
  if (behaviour_.contains("other_batches")) {
    answer["reference_inputs"] = Json::array({input("1")});
    answer["candidate_inputs"] = Json::array({input(has_any("other_batches") ? "others" : "1")});
  }
  if (request.value("rounded", false)) {
    Json rounded = answer;
    rounded["equal"] = false;
    rounded["parameters"][0]["cosine"] = 0.99;
    answer["rounded"] = rounded;
  }
  return {{"ok", answer}};
}

void FakeAgent::stall(const std::string& request) const {
  const Json stalls = behaviour_.value("stalls", Json::object());
  if (stalls.value("request", "") != request) return;
  (void)lock_file(stalls.at("lock").get<std::string>(), "process 7", /*wait=*/true);
}

bool FakeAgent::ends_here() {
  const auto count = static_cast<std::int64_t>(requests_.size());
  if (count == number("interrupts_at", 0)) interrupt(::getppid());
  if (count == number("closes_at", 0)) return true;
  if (count == number("waits_at", 0)) {
    while (channel_.receive(std::chrono::nanoseconds(-1))) {
    }
    return true;
  }
  if (count == number("ends_at", 0)) {
    (void)channel_.send({{"end", {{"steps", steps_}, {"steps_known", true}, {"why", ""}}}});
    return true;
  }
  if (count == number("detaches_at", 0)) {
    (void)channel_.send({{"detached", error("internal", "a tensor was not expected")}});
    return true;
  }
  return false;
}

bool FakeAgent::answer(const Json& request) {
  if (ends_here()) return false;
  const std::string name = request.value("request", "");
  stall(name);
  Json frame;
  if (name == "load") {
    if (behaviour_.contains("no_step")) {
      (void)channel_.send(
          {{"end", {{"steps", 0}, {"steps_known", false}, {"why", behaviour_["no_step"]}}}});
      return false;
    }
    steps_ = kLearning;
    configuration_ = own_configuration();
    frame = {{"ok", load()}};
  } else if (name == "prepare" || name == "finish") {
    configuration_ = own_configuration();
    configuration_.update(request.at("configuration"));
    frame = {{"ok", {{"changed", Json::array()}, {"switch_ns", 1}, {"steps", steps_}}}};
  } else if (name == "run") {
    frame = run(request);
  } else if (name == "check") {
    frame = check(request);
  } else if (name == "place") {
    frame = {{"ok", {{"steps", steps_}}}};
  } else if (name == "profile") {
    step(request.at("count").get<std::int64_t>() + request.value("warmup_steps", 0));
    frame = {{"ok",
              {{"metrics",
                {{"step.duration_ns", 4e6},
                 {"step.samples", 8},
                 {"step.zero_grad_ratio",
                  has_setting(configuration_, "optimizer.set_to_none=on") ? 0.0 : 0.2},
                 {"gradients.complete", 1},
                 {"cpu.kernel_ratio", 0.0}}},
               {"spans", Json::array()},
               {"operators", Json::array()}}}};
  } else {
    frame = {{"error", error("unsupported", "the fake knows no request '" + name + "'")}};
  }
  frame["id"] = request.at("id");
  if (!channel_.send(frame)) return false;
  if (name != "finish") return true;
  step(number("steps_after", 50));
  if (!behaviour_.value("killed", false)) {
    (void)channel_.send({{"end", {{"steps", steps_}, {"steps_known", true}, {"why", ""}}}});
  }
  return false;
}

void FakeAgent::serve() {
  if (behaviour_.value("mute", false)) {
    channel_ = FrameChannel(Descriptor());
    return;
  }
  const Json hello = {{"protocol", 1},        {"trainer", "fake"},  {"libtorch", "2.11.0"},
                      {"pid", ::getpid()},    {"owns_loop", false}, {"python", "3.11.7"},
                      {"script", "train.py"}, {"devices", {"cpu"}}};
  if (!channel_.send({{"hello", hello}})) return;
  for (;;) {
    auto request = channel_.receive(std::chrono::nanoseconds(-1));
    if (!request) return;
    requests_.push_back(*request);
    if (!answer(*request)) break;
  }
  channel_ = FrameChannel(Descriptor());
}

}  // namespace autotuned
