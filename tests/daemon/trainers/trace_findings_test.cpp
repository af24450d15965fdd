// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trace_findings.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "profiler/metrics.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"

namespace autotuned::daemon {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;

std::filesystem::path data(const std::string& name) {
  return tests::source_folder() / "tests/profiler/data" / (name + ".pt.trace.json.gz");
}

std::optional<FindingRecord> found(const tuner::StepProfile& profile, const std::string& id) {
  const auto one = std::ranges::find(profile.findings, id, &FindingRecord::id);
  if (one == profile.findings.end()) return std::nullopt;
  return *one;
}

TEST(TraceFindings, SignalsOfAGpuStandBesideTheMetrics) {
  tuner::StepProfile profile;
  profile.metrics = {{"step.data_wait_ratio", 0.31}, {"steps_count", "ours"}};
  const auto added = add_findings(data("rank0"), profile);
  ASSERT_TRUE(added) << added.error().message();
  EXPECT_GT(profile.metrics.at("copies.pageable_ratio"), 0.0);
  EXPECT_GT(profile.metrics.at("device.utilization_ratio"), 0.0);
  EXPECT_EQ(profile.metrics.at("step.data_wait_ratio"), 0.31);
  EXPECT_EQ(profile.metrics.at("steps_count"), "ours") << "no metric changes";

  const auto copies = found(profile, "pageable_copies");
  ASSERT_TRUE(copies);
  EXPECT_EQ(copies->signal, "copies.pageable_ratio");
  EXPECT_EQ(copies->value, profile.metrics.at("copies.pageable_ratio"));
  EXPECT_GT(copies->value, copies->threshold);
  EXPECT_FALSE(copies->is_below);
  EXPECT_EQ(copies->plugin, "pinned_memory");
  EXPECT_THAT(copies->evidence, HasSubstr(" %"));
  EXPECT_NE(copies->advice, "");
  EXPECT_THAT(copies->severity, AnyOf("high", "medium", "low"));
  EXPECT_THAT(copies->gain, HasSubstr("at most"));
  EXPECT_THAT(copies->code, HasSubstr("pin_memory=True"));
  // What the host waits for hides behind kernels there: these are two figures.
  EXPECT_NE(profile.metrics.at("parts.data_loading_ratio"), 0.31);
}

// A finding and a plugin that judged by two measurements of one thing might contradict each other.
TEST(TraceFindings, WhatAProfileOfTheCpuMeasuredCounts) {
  tuner::StepProfile profile;
  profile.metrics = {{"step.data_wait_ratio", 0.31},    {"step.duration_ns", 8e6},
                     {"step.optimizer_ratio", 0.2},     {"operators.count_per_step", 100.0},
                     {"operators.mean_ns", 4e4},        {"operators.gather_ratio", 0.1},
                     {"operators.gemm_conv_ratio", 0.4}};
  const Json metrics = profile.metrics;
  ASSERT_TRUE(add_findings(data("classifier"), profile));
  EXPECT_EQ(profile.metrics.at("parts.data_loading_ratio"), 0.31);
  EXPECT_EQ(profile.metrics.at("step.mean_ns"), 8e6);
  EXPECT_EQ(profile.metrics.at("optimizer.step_ratio"), 0.2);
  // Operators take half of the step.
  EXPECT_DOUBLE_EQ(profile.metrics.at("operators.gather_share_ratio"), 0.2);
  EXPECT_DOUBLE_EQ(profile.metrics.at("operators.gemm_conv_share_ratio"), 0.8);
  EXPECT_DOUBLE_EQ(profile.metrics.at("cpu.gemm_conv_share_ratio"), 0.8);
  for (const auto& [name, value] : metrics.items())
    EXPECT_EQ(profile.metrics.at(name), value) << name;
  const auto loading = found(profile, "data_loading");
  ASSERT_TRUE(loading);
  EXPECT_EQ(loading->value, 0.31);
  EXPECT_THAT(loading->evidence, testing::StartsWith("31.0 % of the step"));
}

// The rule fires by what the profile measured, or does not, and once.
TEST(TraceFindings, RulesAreHeldAgainstWhatWasMeasured) {
  const auto loading_with = [](double wait) {
    tuner::StepProfile profile;
    profile.metrics = {{"step.data_wait_ratio", wait}};
    EXPECT_TRUE(add_findings(data("classifier"), profile));
    return std::ranges::count(profile.findings, "data_loading", &FindingRecord::id);
  };
  EXPECT_EQ(loading_with(0.31), 1);
  EXPECT_EQ(loading_with(0.001), 0);
}

TEST(TraceFindings, PlacesAreModulesBySignal) {
  const TemporaryFolder folder;
  const auto event = [](const char* name, int start_us, int length_us, const char* module) {
    return Json{{"ph", "X"},        {"cat", "cpu_op"},
                {"name", name},     {"pid", 1},
                {"tid", 1},         {"ts", start_us},
                {"dur", length_us}, {"args", {{"Module Hierarchy", module}}}};
  };
  folder.write("a.json", Json{{"traceEvents",
                               {event("aten::gather", 0, 10, "model.drop"),
                                event("GatherBackward0", 10, 30, "model.drop"),
                                event("aten::gather", 40, 10, "model.head"),
                                event("aten::mm", 50, 950, "model.head")}}}
                             .dump());
  tuner::StepProfile profile;
  ASSERT_TRUE(add_findings(folder / "a.json", profile));
  EXPECT_EQ(
      profile.places,
      Json({{"operators.gather_share_ratio", {{"module", "model.drop"}, {"share_ratio", 0.8}}}}));
}

TEST(TraceFindings, SignalsStayWhereTheProfileHasNoFigure) {
  tuner::StepProfile profile;
  ASSERT_TRUE(add_findings(data("classifier"), profile));
  EXPECT_LT(profile.metrics.at("parts.data_loading_ratio"), 1.0);
  EXPECT_GT(profile.metrics.at("step.mean_ns"), 0.0);
}

TEST(TraceFindings, DamagedTracesChangeNothing) {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::string& text) {
    folder.write("a.json", text);
    tuner::StepProfile profile;
    profile.metrics = {{"a", 1}};
    const auto added = add_findings(folder / "a.json", profile);
    EXPECT_EQ(profile.metrics, Json({{"a", 1}}));
    EXPECT_THAT(profile.findings, IsEmpty());
    return added ? std::string() : added.error().message();
  };
  EXPECT_THAT(error_of(R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, )"
                       R"("dur": 5, "pid": 1, "tid": 1}, {"ph": "X", "ca)"),
              HasSubstr("ends too early"));
  EXPECT_NE(error_of("nothing"), "");
  EXPECT_NE(error_of(""), "");
  tuner::StepProfile profile;
  EXPECT_EQ(add_findings(folder / "missing.json", profile).error().kind, ErrorKind::not_found);
}

TEST(TraceFindings, HugeTracesAreLeftToAnalyze) {
  const TemporaryFolder folder;
  folder.write("huge.json", "[");
  std::filesystem::resize_file(folder / "huge.json", (64 << 20) + 1);  // sparse
  tuner::StepProfile profile;
  const std::string message = add_findings(folder / "huge.json", profile).error().message();
  EXPECT_THAT(message, HasSubstr("looks at no more than 64.0 MiB"));
  EXPECT_THAT(message, HasSubstr("`autotuned analyze` takes it"));
}

// Plugins see both side by side.
TEST(TraceFindings, NoSignalHasTheNameOfAMetric) {
  for (const char* name : {"rank0", "classifier", "workers", "stacks", "unmarked"}) {
    tuner::StepProfile profile;
    ASSERT_TRUE(add_findings(data(name), profile));
    for (const auto& metric : profiler::metric_definitions())
      EXPECT_FALSE(profile.metrics.contains(metric.name)) << metric.name;
  }
}

}  // namespace
}  // namespace autotuned::daemon
