// SPDX-License-Identifier: Apache-2.0
// Our figures against those of HolisticTraceAnalysis on the same traces, where both define one alike:
// bench/peers/trace_hta.py --record wrote them down, and says which these are.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/file.hpp"
#include "base/json.hpp"
#include "profiler/analysis/communication.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "tests/places.hpp"
#include "tests/profiler/packed_json.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

std::filesystem::path hta_file(const std::string& name) {
  return tests::source_folder() / "tests/profiler/data" / name;
}

bool is_kept(const Json& event) {
  constexpr std::array kKept = {"kernel",      "gpu_memcpy",  "gpu_memset", "cuda_runtime",
                                "cuda_driver", "hip_runtime", "cpu_op"};
  const std::string category = event.value("cat", "");
  const std::string name = event.value("name", "");
  return event.value("ph", "") == "X" && std::ranges::find(kKept, category) != kKept.end() &&
         !name.starts_with("nccl:") && !name.starts_with("gloo:");
}

// One step that holds everything, as the program does it: HolisticTraceAnalysis leaves out the last step.
std::string in_one_step(Json trace) {
  Json events = Json::array();
  double start_us = std::numeric_limits<double>::max();
  double end_us = 0;
  Json step;
  for (const Json& event : trace.at("traceEvents")) {
    if (!is_kept(event)) continue;
    events.push_back(event);
    const double at_us = event.at("ts");
    start_us = std::min(start_us, at_us);
    end_us = std::max(end_us, at_us + event.at("dur").get<double>());
    const std::string category = event.at("cat");
    const bool is_host = category != "kernel" && !category.starts_with("gpu_");
    if (step.is_null() && is_host) step = event;
  }
  step["cat"] = "user_annotation";
  step["name"] = "ProfilerStep#1";
  step["ts"] = start_us;
  step["dur"] = end_us - start_us;
  step["args"] = Json::object();
  events.push_back(std::move(step));
  trace["traceEvents"] = std::move(events);
  return trace.dump();
}

std::map<std::string, double> figures_of(const traces::Trace& trace) {
  const TraceAnalysis analysis = analyze(trace);
  const auto part_us = [&](Part part) { return analysis.breakdown.mean_part_ns(part) / 1e3; };
  std::map<std::string, double> figures = {
      {"computation_us", part_us(Part::kernel)},
      {"busy_us", part_us(Part::kernel) + part_us(Part::copy) + part_us(Part::fill) +
                      part_us(Part::communication)}};
  for (const KernelRow& row : analysis.kernels) {
    figures["sum of " + row.name] = static_cast<double>(row.total_ns) / 1e3;
    figures["min of " + row.name] = static_cast<double>(row.min_ns) / 1e3;
    figures["max of " + row.name] = static_cast<double>(row.max_ns) / 1e3;
  }
  const Communication exchange = communication_of(trace, analysis.breakdown.stretches);
  if (exchange.communication_ns > 0) {
    figures["overlapped_percent"] = 100 * static_cast<double>(exchange.overlapped_ns) /
                                    static_cast<double>(exchange.communication_ns);
  }
  return figures;
}

TEST(Hta, Agrees) {
  const auto text = read_file(hta_file("hta.json"), 1 << 20);
  ASSERT_TRUE(text);
  const auto record = parse_json(*text, "hta.json");
  ASSERT_TRUE(record) << record.error().message();
  ASSERT_GE(record->size(), 3U);
  for (const auto& [file, theirs] : record->items()) {
    const auto trace = read_trace_text(in_one_step(read_packed_json(hta_file(file))));
    ASSERT_TRUE(trace) << file << ": " << trace.error().message();
    const auto ours = figures_of(*trace);
    EXPECT_GT(theirs.size(), 5U) << file;
    for (const auto& [name, figure] : theirs.items()) {
      ASSERT_TRUE(ours.contains(name)) << file << ": " << name;
      const double expected = figure;
      EXPECT_NEAR(ours.at(name), expected, 0.01 * std::abs(expected) + 0.01)
          << file << ": " << name;
    }
  }
}

}  // namespace
}  // namespace autotuned::analysis
