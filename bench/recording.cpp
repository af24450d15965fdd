// SPDX-License-Identifier: Apache-2.0
// What it costs to record: a span, a module, an operator, a whole step; and how fast traces are written.
//
// usage: recording [--recipe recipes/resnet18_cifar_cpu.yaml] [--pairs 20] [--steps 5] [--events 1000000]
#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/machine/machine.hpp"
#include "profiler/recorder/thread_log.hpp"
#include "profiler/recorder/torch_timeline.hpp"
#include "profiler/spans.hpp"
#include "profiler/traces/writer.hpp"
#include "recipes/recipe.hpp"
#include "trainer/job/job.hpp"

namespace autotuned {
namespace {

using profiler::now_ns;

// Rounds of a millisecond or so, many of which nobody interrupts.
constexpr int kCalls = 500;
constexpr int kRounds = 3'600;

double lowest_tenth(std::vector<double> values) {
  const auto tenth = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 10);
  std::ranges::nth_element(values, tenth);
  return *tenth;
}

// In ns per call, of rounds: a tenth of them took less. What others on the machine do to the rest
// is no cost of the call.
template <class Work>
double ns_per_call(int calls, const Work& work) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t start = now_ns();
    for (int i = 0; i < calls; ++i)
      work();
    rounds.push_back(static_cast<double>(now_ns() - start) / calls);
  }
  return lowest_tenth(std::move(rounds));
}

void measure_calls() {
  const auto line = [](const std::string& what, double off, double on) {
    std::printf("| %s | %.1f | %.1f | %.1f |\n", what.c_str(), off, on, on - off);
  };
  std::printf("| call | ns, nobody records | ns, recording | difference |\n|---|---|---|---|\n");
  const auto span = [] {
    const profiler::Span one("a");
    asm volatile("" ::: "memory");
  };
  const auto nothing = ns_per_call(kCalls, [] { asm volatile("" ::: "memory"); });
  const double span_off = ns_per_call(kCalls, span);
  double span_on = 0;
  {
    const profiler::SpanRecorder recorder(static_cast<std::size_t>(kCalls) * kRounds);
    span_on = ns_per_call(kCalls, span);
  }
  std::printf("| an empty loop | %.1f | | |\n", nothing);
  line("a span", span_off, span_on);

  int module = 0;
  const auto module_span = [&module] {
    const profiler::ModuleSpan one(&module);
    asm volatile("" ::: "memory");
  };
  at::set_num_threads(1);
  at::Tensor tensor = at::ones({8});
  const at::Tensor other = at::ones({8});
  const auto add = [&] { tensor.add_(other); };  // one operator that calls no other
  const profiler::TimelineOptions plain{.most_events = 100'000'000};
  profiler::TimelineOptions shapes = plain;
  shapes.records_shapes = true;
  const auto recording = [](const profiler::TimelineOptions& options, const auto& work) {
    profiler::TimelineRecorder recorder(options);
    const double ns = ns_per_call(kCalls, work);
    (void)recorder.stop({});
    return ns;
  };
  line("a module", ns_per_call(kCalls, module_span), recording(plain, module_span));
  const double add_off = ns_per_call(kCalls, add);
  const auto observer = at::addGlobalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; }));
  line("the operator add_ on 8 numbers, with an observer of LibTorch's that does nothing", add_off,
       ns_per_call(kCalls, add));
  at::removeCallback(observer);
  line("the operator", add_off, recording(plain, add));
  line("the operator with shapes", add_off, recording(shapes, add));
}

int measure_writing(std::int64_t events) {
  const auto file = std::filesystem::temp_directory_path() / "recording.pt.trace.json.gz";
  const std::int64_t start = now_ns();
  auto writer = traces::TraceWriter::create(
      file, {.process = 1, .process_name = "bench", .start_ns = 1'795'282'803'123'456'789});
  if (!writer) return 1;
  for (std::int64_t i = 0; i < events; ++i) {
    writer->begin_event("cpu_op", "aten::op_" + std::to_string(i % 80), 100,
                        1'795'282'803'123'456'789 + i * 2500, 2000 + i % 977);
    writer->argument("External id", i + 1);
    writer->argument("Ev Idx", i);
    writer->argument("Sequence number", i / 3);
    writer->argument("Fwd thread id", 0);
    writer->argument("Module Hierarchy", "model.blocks.3.attn.qkv");
  }
  const auto written = writer->finish(1'795'282'903'123'456'789, 0);
  const double seconds = static_cast<double>(now_ns() - start) / 1e9;
  if (!written) return 1;
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  std::printf("\n%lld events written in %.2f s, %lld MB; peak memory of the process %ld MB\n",
              static_cast<long long>(events), seconds,
              static_cast<long long>(written->bytes / 1'000'000), use.ru_maxrss / 1000);
  std::filesystem::remove(file);
  return 0;
}

// Pairs of blocks with and without recording, in an order that a coin decides.
int measure_steps(const std::string& recipe_file, int pairs, std::int64_t steps) {
  const Machine machine = detect_machine();
  const auto knobs = recipes::knobs_of(machine);
  auto recipe = recipes::read_recipe(recipe_file, knobs);
  if (!recipe) {
    std::cerr << recipe.error().front().text() << "\n";
    return 2;
  }
  auto job = trainer::Job::load(*recipe, recipe->starting_configuration(knobs), machine,
                                {.names = {"cpu"}, .cuda_reason = "not for this"});
  if (!job) {
    std::cerr << job.error().message() << "\n";
    return 1;
  }
  const auto never = [] { return false; };
  const auto file = std::filesystem::temp_directory_path() / "recording.pt.trace.json.gz";
  std::mt19937 coin(std::random_device{}());
  std::vector<double> ratios;
  std::int64_t events = 0;
  for (int pair = 0; pair < pairs + 1; ++pair) {
    double off_ns = 0;
    double on_ns = 0;
    const bool is_off_first = (coin() & 1U) != 0;
    for (const bool is_off : {is_off_first, !is_off_first}) {
      if (is_off) {
        const auto block = (*job)->run_steps(steps, never);
        if (!block) return 1;
        off_ns = static_cast<double>(block->duration_ns);
      } else {
        const auto trace = (*job)->trace({.file = file, .active = steps}, never);
        if (!trace) return 1;
        on_ns = static_cast<double>(trace->duration_ns);
        events = trace->events;
      }
    }
    if (pair > 0) ratios.push_back(on_ns / off_ns);  // the first warms up
  }
  std::filesystem::remove(file);
  std::ranges::sort(ratios);
  // The interval of a median by order statistics.
  const auto half = static_cast<std::size_t>(0.98 * std::sqrt(static_cast<double>(ratios.size())));
  const std::size_t middle = ratios.size() / 2;
  std::printf(
      "\n%s: a step with recording takes %.3f times as long (%.3f to %.3f), %zu pairs of %lld "
      "steps, "
      "%lld events a step\n",
      recipe_file.c_str(), ratios[middle], ratios[middle - std::min(middle, half)],
      ratios[std::min(ratios.size() - 1, middle + half)], ratios.size(),
      static_cast<long long>(steps), static_cast<long long>(events / steps));
  return 0;
}

}  // namespace
}  // namespace autotuned

int main(int argc, char** argv) {
  CLI::App app{"What recording costs"};
  std::string recipe;
  int pairs = 20;
  std::int64_t steps = 5;
  std::int64_t events = 1'000'000;
  app.add_option("--recipe", recipe, "Compare steps of this recipe with and without recording");
  app.add_option("--pairs", pairs)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--steps", steps)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--events", events)->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (!recipe.empty()) return autotuned::measure_steps(recipe, pairs, steps);
  autotuned::measure_calls();
  return autotuned::measure_writing(events);
}
