// SPDX-License-Identifier: Apache-2.0
// Our figures against those of PyTorch's removed profiler plugin on the same traces:
// bench/peers/trace_oracle.py recorded them. docs/metrics.md says where we differ on purpose.
#include <gtest/gtest.h>

#include <map>

#include "base/file.hpp"
#include "base/json.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/places.hpp"
#include "tests/profiler/nesting.hpp"
#include "tests/profiler/packed_json.hpp"

namespace autotuned::analysis {
namespace {

std::string data_file(const std::string& name) {
  return tests::source_folder() / "tests/profiler/data" / name;
}

void expect_close(double ours, double theirs, const std::string& what) {
  EXPECT_NEAR(ours, theirs, 0.001 * std::abs(theirs) + 0.01) << what;
}

template <class Rows>
std::map<std::string, typename Rows::value_type> by_name(const Rows& rows) {
  std::map<std::string, typename Rows::value_type> table;
  for (const auto& row : rows)
    table[row.name] = row;
  return table;
}

class Oracle : public testing::TestWithParam<const char*> {};

TEST_P(Oracle, Agrees) {
  const auto text = read_file(data_file("oracle.json"), 1 << 20);
  ASSERT_TRUE(text);
  const auto record = parse_json(*text, "oracle.json");
  ASSERT_TRUE(record) << record.error().message();
  const Json& theirs = record->at(GetParam());
  const auto trace = traces::read_trace(data_file(GetParam()));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_TRUE(trace->damage.empty());
  const TraceAnalysis ours = analyze(*trace);

  expect_close(ours.breakdown.mean_step_ns() / 1e3, theirs.at("step_us"), "step");
  double cpu_parts_us = 0;
  double their_cpu_parts_us = 0;
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto part = static_cast<Part>(i);
    const double part_us = ours.breakdown.mean_part_ns(part) / 1e3;
    const double their_us = theirs.at("parts_us").at(to_string(part));
    if (ours.breakdown.has_steps || i < static_cast<std::size_t>(Part::data_loading)) {
      expect_close(part_us, their_us, to_string(part));
    } else {  // the recorded loading is only that of traces with steps
      cpu_parts_us += part_us;
      their_cpu_parts_us += their_us;
    }
  }
  expect_close(cpu_parts_us, their_cpu_parts_us, "DataLoader, CPU Exec and Other");

  const auto operators = by_name(ours.operators);
  EXPECT_EQ(operators.size(), theirs.at("operators").size());
  for (const Json& row : theirs.at("operators")) {
    const std::string name = row.at("name");
    ASSERT_TRUE(operators.contains(name)) << name;
    const OperatorRow& own = operators.at(name);
    EXPECT_EQ(own.calls, row.at("calls")) << name;
    expect_close(static_cast<double>(own.host_total_ns) / 1e3, row.at("host_total_us"), name);
    expect_close(static_cast<double>(own.host_self_ns) / 1e3, row.at("host_self_us"), name);
    expect_close(static_cast<double>(own.device_total_ns) / 1e3, row.at("device_total_us"), name);
    expect_close(static_cast<double>(own.device_self_ns) / 1e3, row.at("device_self_us"), name);
  }

  const auto kernels = by_name(ours.kernels);
  EXPECT_EQ(kernels.size(), theirs.at("kernels").size());
  for (const Json& row : theirs.at("kernels")) {
    const std::string name = row.at("name");
    ASSERT_TRUE(kernels.contains(name)) << name;
    const KernelRow& own = kernels.at(name);
    EXPECT_EQ(own.calls, row.at("calls")) << name;
    expect_close(static_cast<double>(own.total_ns) / 1e3, row.at("total_us"), name);
    expect_close(static_cast<double>(own.max_ns) / 1e3, row.at("max_us"), name);
    expect_close(static_cast<double>(own.min_ns) / 1e3, row.at("min_us"), name);
    expect_close(own.blocks_per_sm.value_or(0.0), row.at("blocks_per_sm"), name);
    expect_close(own.occupancy_percent.value_or(0.0), row.at("occupancy_percent"), name);
  }

  const Json& gpu = theirs.at("gpu");
  ASSERT_EQ(ours.devices.empty(), gpu.is_null());
  if (gpu.is_null()) return;
  const DeviceUse& device = ours.devices.front();
  EXPECT_NEAR(device.utilization, gpu.at("utilization"), 1e-4);
  EXPECT_NEAR(device.sm_efficiency.value(), gpu.at("sm_efficiency"), 1e-4);
  EXPECT_NEAR(device.achieved_occupancy_percent.value(), gpu.at("achieved_occupancy_percent"),
              1e-3);
}

// Three that PyTorch wrote, two of a script, one of `autotuned profile`, and one of its recording of a fake GPU.
INSTANTIATE_TEST_SUITE_P(Traces, Oracle,
                         testing::Values("classifier.pt.trace.json.gz", "workers.pt.trace.json.gz",
                                         "unmarked.pt.trace.json.gz", "rank0.pt.trace.json.gz",
                                         "rank1.pt.trace.json.gz", "recorded.pt.trace.json.gz",
                                         "cupti.pt.trace.json.gz"),
                         [](const auto& tested) {
                           const std::string name = tested.param;
                           return name.substr(0, name.find('.'));
                         });

// Viewers such as Perfetto draw the complete events of one thread inside of each other.
TEST(OwnTraces, HaveEventsThatNest) {
  for (const char* name : {"recorded.pt.trace.json.gz", "cupti.pt.trace.json.gz"}) {
    const Json trace = read_packed_json(data_file(name));
    EXPECT_EQ(crossing_events(trace), std::vector<std::string>{}) << name;
    EXPECT_GT(trace.at("traceEvents").size(), 50U) << name;
  }
}

TEST(OwnTraces, CrossingEventsAreSeen) {
  const auto events = [](const char* text) { return crossing_events(Json::parse(text)); };
  EXPECT_EQ(events(R"({"traceEvents": [
                     {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0.5, "dur": 10},
                     {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 5, "dur": 10}]})"),
            std::vector<std::string>{"a and b"});
  EXPECT_TRUE(events(R"({"traceEvents": [
                       {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 5, "dur": 5.5},
                       {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0.5, "dur": 10},
                       {"ph": "X", "name": "c", "pid": 1, "tid": 1, "ts": 10.5, "dur": 3},
                       {"ph": "X", "name": "d", "pid": 1, "tid": 2, "ts": 1, "dur": 30}]})")
                  .empty());
}

}  // namespace
}  // namespace autotuned::analysis
