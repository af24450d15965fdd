// SPDX-License-Identifier: Apache-2.0
// A recording, written and read again.
#include "profiler/recorder/timeline_trace.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>

#include "profiler/analysis/profile.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned::profiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using traces::EventKind;
using traces::Trace;

constexpr std::int64_t kTraining = 10;
constexpr std::int64_t kUs = 1'000;

// One step of 100 us that waits for data for 20 and gathers in its backward for 60.
Recording recording() {
  Recording recording{.training_thread = kTraining,
                      .start_ns = 0,
                      .end_ns = 100 * kUs,
                      .optimizer = "sgd",
                      .has_loader_workers = true};
  recording.loading = {{.thread = 11, .name = "decode_jpeg", .start_ns = 5, .end_ns = 10 * kUs}};
  RecordedSteps steps{.first_step = 12};
  steps.spans = {{.name = span::kStep, .start_ns = 0, .end_ns = 100 * kUs, .parent = -1},
                 {.name = span::kDataWait, .start_ns = 0, .end_ns = 20 * kUs, .parent = 0},
                 {.name = span::kOptimizer, .start_ns = 90 * kUs, .end_ns = 95 * kUs, .parent = 0}};
  steps.timeline.modules = {"model", "model.patch_drop"};
  ThreadTimeline thread{.thread = kTraining, .logical_thread = 1};
  thread.names = {"aten::gather", "GatherBackward0"};
  thread.inputs = {{"[[2, 3]]", "[\"float\"]", "[\"7\"]"}};
  thread.events = {
      {.start_ns = 20 * kUs, .end_ns = 30 * kUs, .module = 1, .kind = TimelineKind::module},
      {.start_ns = 21 * kUs,
       .end_ns = 29 * kUs,
       .sequence = 3,
       .name = 0,
       .module = 1,
       .parent = 0,
       .inputs = 0},
      {.start_ns = 30 * kUs,
       .end_ns = 90 * kUs,
       .sequence = 3,
       .forward_thread = 1,
       .name = 1,
       .kind = TimelineKind::backward}};
  thread.memory = {{.time_ns = 22 * kUs, .address = 64, .bytes = 128, .allocated_bytes = 128}};
  steps.timeline.threads.push_back(std::move(thread));
  recording.stretches.push_back(std::move(steps));
  return recording;
}

Trace written(Recording recording) {
  const TemporaryFolder folder;
  const auto file = folder / "a.pt.trace.json.gz";
  const auto trace = write_recording(recording, 0, file);
  EXPECT_TRUE(trace) << trace.error().message();
  auto read = traces::read_trace(file);
  EXPECT_TRUE(read) << read.error().message();
  return read ? std::move(*read) : Trace();
}

TEST(TimelineTrace, HasPyTorchsNames) {
  const Trace trace = written(recording());
  EXPECT_THAT(trace.damage, IsEmpty());
  std::vector<std::string> names;
  for (std::size_t row = 0; row < trace.events.size(); ++row)
    names.push_back(trace.name_of(row));
  EXPECT_THAT(names, ElementsAre("ProfilerStep#12",
                                 "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                                 "Optimizer.step#sgd.step", "model.patch_drop", "aten::gather",
                                 "GatherBackward0", "decode_jpeg"));
  EXPECT_THAT(trace.events.kind,
              ElementsAre(EventKind::step, EventKind::data_loading, EventKind::annotation,
                          EventKind::module, EventKind::cpu_operator, EventKind::cpu_operator,
                          EventKind::annotation));
  EXPECT_EQ(trace.events.length_ns[5], 60 * kUs);
  EXPECT_THAT(trace.events.external_id, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(trace.memory.size(), 1U);
  EXPECT_TRUE(trace.has_input_types);
}

TEST(TimelineTrace, ChargesBackwardToItsModule) {
  const Trace trace = written(recording());
  EXPECT_EQ(trace.names.text(trace.events.module[5]), "model.patch_drop");
}

TEST(TimelineTrace, IsAnalysedLikeAnyOther) {
  const auto analysis = analysis::analyze(written(recording()));
  ASSERT_TRUE(analysis.breakdown.has_steps);
  EXPECT_EQ(analysis.breakdown.mean_step_ns(), 100.0 * kUs);
  EXPECT_EQ(analysis.breakdown.mean_part_ns(analysis::Part::data_loading), 20.0 * kUs);
  EXPECT_EQ(analysis.breakdown.mean_part_ns(analysis::Part::cpu), 68.0 * kUs);
  std::map<std::string, std::string> findings;
  for (const analysis::Finding& finding : analysis.findings)
    findings[finding.rule->id] = finding.evidence;
  EXPECT_THAT(findings["gather_backward"], HasSubstr("100 % of that in model.patch_drop"));
  EXPECT_THAT(findings["data_loading"], HasSubstr("20.0 %"));
}

// The operators of the second step had no room, nor had those of the autograd thread behind 130 us.
Recording full_recording() {
  Recording full = recording();
  full.end_ns = 300 * kUs;
  full.lost_events = 7;
  RecordedSteps& steps = full.stretches[0];
  for (const std::int64_t start_ns : {100 * kUs, 200 * kUs}) {
    steps.spans.push_back(
        {.name = span::kStep, .start_ns = start_ns, .end_ns = start_ns + 100 * kUs, .parent = -1});
  }
  steps.timeline.lost_events = 7;
  steps.timeline.threads[0].events.push_back(
      {.start_ns = 240 * kUs, .end_ns = 250 * kUs, .name = 0});
  steps.timeline.threads.push_back({.thread = 12, .logical_thread = 2});
  ThreadTimeline& autograd = steps.timeline.threads.back();
  autograd.names = {"AddBackward0"};
  autograd.events = {
      {.start_ns = 130 * kUs, .end_ns = 150 * kUs, .name = 0, .kind = TimelineKind::backward}};
  steps.timeline.threads.push_back({.thread = 13, .logical_thread = 3});
  steps.timeline.threads.back().names = {"aten::empty"};
  steps.timeline.threads.back().events = {
      {.start_ns = 1, .end_ns = 2, .name = 0}};  // had nothing else to do
  return full;
}

TEST(TimelineTrace, StepsThatAreNotWholeDoNotCount) {
  const Trace trace = written(full_recording());
  std::vector<std::string> names;
  for (std::size_t row = 0; row < 5; ++row)
    names.push_back(trace.name_of(row));
  EXPECT_THAT(names, testing::IsSupersetOf({"ProfilerStep#12", "step that was recorded in part",
                                            "step that was recorded in part"}));
  EXPECT_THAT(trace.notes,
              ElementsAre(HasSubstr("it lost 7 events"),
                          "1 of 3 steps were recorded completely, and only these count"));
  const auto analysis = analysis::analyze(trace);
  EXPECT_EQ(analysis.breakdown.steps.size(), 1U);
  EXPECT_EQ(analysis.breakdown.mean_part_ns(analysis::Part::other), 12.0 * kUs);
  EXPECT_THAT(analysis.notes, testing::Contains(HasSubstr("1 of 3 steps")));
}

TEST(TimelineTrace, WithoutAWholeStepAllAreLeft) {
  Recording full = full_recording();
  full.stretches[0].timeline.threads[0].events.resize(2);
  const auto analysis = analysis::analyze(written(std::move(full)));
  EXPECT_EQ(analysis.breakdown.steps.size(), 3U);
  EXPECT_THAT(analysis.notes, testing::Contains(HasSubstr("no step was recorded completely")));
}

TEST(TimelineTrace, OfNothingIsATrace) {
  const TemporaryFolder folder;
  Recording empty;
  const auto trace = write_recording(empty, 0, folder / "a.json.gz");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events, 0);
}

TEST(TimelineTrace, NumbersStepsAndNamesLoadersOfItsOwnThread) {
  Recording single;
  single.optimizer = "adam";
  EXPECT_EQ(span_name_in_trace(span::kStep, 3, single), "ProfilerStep#3");
  EXPECT_EQ(span_name_in_trace(span::kDataWait, 3, single),
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
  EXPECT_EQ(span_name_in_trace(span::kZeroGrad, 3, single), "Optimizer.zero_grad#adam.zero_grad");
  EXPECT_EQ(span_name_in_trace(span::kBackward, 3, single), "backward");
}

TEST(TimelineTrace, OfSeveralRanksSaysWhichAndWhatTheyExchange) {
  Recording one = recording();
  one.rank = 1;
  one.ranks = 3;
  one.stretches[0].timeline.exchanges = {{.thread = 12,
                                          .name = "gloo:all_reduce",
                                          .start_ns = 40 * kUs,
                                          .end_ns = 95 * kUs,
                                          .inputs = {"[[500]]", "[\"float\"]", ""}}};
  const Trace trace = written(std::move(one));
  EXPECT_THAT(trace.damage, IsEmpty());
  EXPECT_EQ(trace.rank, 1);
  EXPECT_EQ(trace.world_size, 3);
  EXPECT_EQ(trace.backend, "gloo");
  const auto found = std::ranges::find(trace.events.kind, EventKind::communication);
  ASSERT_NE(found, trace.events.kind.end());
  const auto row = static_cast<std::size_t>(found - trace.events.kind.begin());
  EXPECT_EQ(trace.name_of(row), "gloo:all_reduce");
  EXPECT_EQ(trace.events.length_ns[row], 55 * kUs);
  ASSERT_EQ(trace.collectives.size(), 1U);
  EXPECT_EQ(trace.collectives[0].bytes, 2000);
  // The backward node ends at 90.
  const auto profile = analysis::profile_of(trace, analysis::Depth::views);
  EXPECT_EQ(profile.communication.communication_ns, 55 * kUs);
  EXPECT_EQ(profile.communication.exposed_ns(), 5 * kUs);
}

TEST(TimelineTrace, OfOneRankSaysNothingOfRanks) {
  const Trace trace = written(recording());
  EXPECT_EQ(trace.rank, std::nullopt);
  EXPECT_EQ(trace.world_size, 1);
}

}  // namespace
}  // namespace autotuned::profiler
