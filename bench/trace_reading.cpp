// SPDX-License-Identifier: Apache-2.0
// Writes a trace of many events in Kineto's form, then reads and analyses it: time and peak memory.
//
// usage: trace_reading [--events 1000000] [--gzip] [--rounds 3] [--file trace.json]
#include <fmt/format.h>
#include <sys/resource.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <string>

#include "base/text.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "profiler/traces/reader.hpp"

namespace autotuned {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kEventsPerStep = 10'000;

// Operators with shapes, calls of the runtime and kernels, in turn, as a training job has them.
void append_event(std::string& text, std::int64_t i) {
  const std::int64_t start_ns = 4'411'714'000'000'000 + i * 2500;
  const auto at = [](std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); };
  const std::int64_t launch = i / 3;
  if (i % kEventsPerStep == 0) {
    text += fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#{}\", "
        "\"pid\": "
        "100, \"tid\": 100,\n    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      \"External "
        "id\": "
        "{}, \"Ev Idx\": {}\n    }}\n  }},\n",
        i / kEventsPerStep, at(start_ns), at(kEventsPerStep * 2500 - 100), i + 1, i);
  } else if (i % 3 == 0) {
    text += fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::op_{}\", \"pid\": 100, "
        "\"tid\": "
        "100,\n    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      \"External id\": {},\"Record "
        "function id\": 0, \"Concrete Inputs\": [\"\", \"\"], \"Input type\": [\"float\", "
        "\"float\"], \"Input Strides\": [[64, 8, 1], [64, 8, 1]], \"Input Dims\": [[32, 64, 64], "
        "[32, "
        "64, {}]], \"Ev Idx\": {}\n    }}\n  }},\n",
        launch % 80, at(start_ns), at(7000), i + 1, launch % 64, i);
  } else if (i % 3 == 1) {
    text += fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", "
        "\"pid\": 100, "
        "\"tid\": 100,\n    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      \"External id\": {}, "
        "\"cbid\": 211, \"correlation\": {}\n    }}\n  }},\n",
        at(start_ns), at(3500), i, launch + 1);
  } else {
    text += fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void "
        "at::native::vectorized_elementwise_kernel<4, Functor<{}>, at::detail::Array<char*, "
        "3>>(int)\", \"pid\": 0, \"tid\": 7,\n    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n     "
        " "
        "\"External id\": {}, \"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": 7, "
        "\"correlation\": {}, \"registers per thread\": 32, \"shared memory\": 0, \"blocks per "
        "SM\": "
        "1.5, \"warps per SM\": 12, \"grid\": [120, 1, 1], \"block\": [256, 1, 1], \"est. achieved "
        "occupancy %\": 38\n    }}\n  }},\n",
        launch % 60, at(start_ns + 2000), at(6000), i - 1, launch + 1);
  }
}

void write_trace(const std::filesystem::path& file, std::int64_t events, bool packed) {
  // "T": as it is.
  gzFile out = gzopen(file.c_str(), packed ? "wb6" : "wbT");
  if (out == nullptr) throw std::runtime_error("cannot write " + file.string());
  std::string text =
      "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{\"id\": 0, \"name\": \"X\", "
      "\"totalGlobalMem\": 1000, \"computeMajor\": 9, \"computeMinor\": 0}],\n  \"traceEvents\": "
      "[\n";
  for (std::int64_t i = 0; i < events; ++i) {
    append_event(text, i);
    if (text.size() < (1U << 20U) && i + 1 < events) continue;
    if (i + 1 == events) text.replace(text.size() - 2, 2, "\n  ],\n  \"traceName\": \"x\"\n}\n");
    gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
    text.clear();
  }
  gzclose(out);
}

// Wall-clock and CPU time: on a busy machine only the second says what the work costs.
struct Times {
  Clock::time_point wall = Clock::now();
  std::clock_t processor = std::clock();

  [[nodiscard]] std::string since() const {
    return fmt::format("{:.2f} s ({:.2f} s of CPU)",
                       std::chrono::duration<double>(Clock::now() - wall).count(),
                       static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC);
  }
};

int bench(int argc, char** argv) {
  CLI::App app("Time and memory of reading and analysing a large trace", "trace_reading");
  std::int64_t events = 1'000'000;
  bool packed = false;
  int rounds = 3;
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / "trace_reading.pt.trace.json";
  app.add_option("--events", events)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_flag("--gzip", packed);
  app.add_option("--rounds", rounds)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--file", file, "Where the trace is written; removed afterwards")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  write_trace(file, events, packed);
  std::cout << fmt::format(
      "{} events, {}\n", format_count(events),
      format_bytes(static_cast<std::int64_t>(std::filesystem::file_size(file))));
  int code = 0;
  for (int round = 0; round < rounds; ++round) {
    const Times start;
    const auto trace = traces::read_trace(file);
    const std::string reading = start.since();
    if (!trace || trace->events.size() != static_cast<std::size_t>(events)) {
      std::cerr << "error: " << (trace ? "events are missing" : trace.error().message()) << "\n";
      code = 1;
      break;
    }
    const Times read;
    const auto analysis = analysis::analyze(*trace);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::cout << fmt::format("read in {}, analysed in {}, {} steps, peak {}\n", reading,
                             read.since(), analysis.breakdown.steps.size(),
                             format_bytes(std::int64_t{usage.ru_maxrss} * 1024));
  }
  std::filesystem::remove(file);
  return code;
}

}  // namespace
}  // namespace autotuned

int main(int argc, char** argv) {
  return autotuned::bench(argc, argv);
}
