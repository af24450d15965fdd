// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/timeline.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "profiler/recorder/thread_log.hpp"
#include "profiler/recorder/timeline_device.hpp"
#include "profiler/scopes.hpp"
#include "profiler/spans.hpp"

namespace autotuned::profiler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kPlenty = 1'000'000;

TimelineEvent operation(std::int64_t sequence, std::uint32_t module, std::uint32_t parent = kNone) {
  return {.sequence = sequence, .name = 0, .module = module, .parent = parent};
}

TimelineEvent node(std::int64_t sequence, std::uint64_t forward_thread,
                   std::uint32_t parent = kNone) {
  return {.sequence = sequence,
          .forward_thread = forward_thread,
          .name = 0,
          .parent = parent,
          .kind = TimelineKind::backward};
}

TEST(ChargeBackward, GoesToTheModuleOfTheOperatorThatMadeTheNode) {
  Timeline timeline{.modules = {"model.first", "model.second"}};
  timeline.threads = {{.logical_thread = 1}, {.logical_thread = 2}};
  timeline.threads[0].events = {operation(5, 0),     // linear: only calls
                                operation(5, 0, 0),  // transpose: makes node 5
                                operation(6, 1)};
  // The engine's frame, the node in it, and an operator of its own in that.
  timeline.threads[1].events = {operation(-1, kNone), node(6, 1, 0), operation(-1, kNone, 1),
                                node(5, 1),           node(7, 1),    node(5, 3)};
  const auto links = charge_backward(timeline);
  EXPECT_THAT(links, ElementsAre(BackwardLink{{0, 2}, {1, 1}}, BackwardLink{{0, 1}, {1, 3}}));
  std::vector<std::uint32_t> modules;
  for (const TimelineEvent& event : timeline.threads[1].events)
    modules.push_back(event.module);
  EXPECT_THAT(modules, ElementsAre(1, 1, 1, 0, kNone, kNone));
}

TEST(ChargeBackward, LeavesAModuleThatIsKnown) {
  Timeline timeline{.modules = {"model.first", "model.second"}};
  timeline.threads = {{.logical_thread = 1}};
  TimelineEvent known = node(5, 1);
  known.module = 1;
  timeline.threads[0].events = {operation(5, 0), known};
  EXPECT_EQ(charge_backward(timeline).size(), 1U);
  EXPECT_EQ(timeline.threads[0].events[1].module, 1U);
}

TEST(ScriptModulePath, IsThatOfTheInnermostModule) {
  EXPECT_EQ(script_module_path("TOP(Net)::forward.layer1(Sequential)::forward.0(Block)::forward."
                               "conv1(Conv2d)::forward.SELF(Conv2d)::_conv_forward.aten::conv2d"),
            "layer1.0.conv1");
  EXPECT_EQ(script_module_path("TOP(Net)::forward.aten::relu"), "");
  EXPECT_EQ(script_module_path("TOP(Net)::forward"), "");
  EXPECT_EQ(script_module_path(""), "");
  EXPECT_EQ(script_module_path("TOP(Net"), "");
  EXPECT_EQ(script_module_path("a(b)::"), "a");
}

TEST(ThreadLog, NestsOperatorsAndModules) {
  EventQuota room(kPlenty);
  ThreadLog log(room, 100, 1);
  int first = 0;
  int second = 0;
  EXPECT_TRUE(log.is_outermost());
  log.enter_module(&first);
  EXPECT_TRUE(log.is_outermost());
  log.begin(TimelineKind::operation, "aten::linear");
  log.start_clock();
  EXPECT_FALSE(log.is_outermost());
  log.begin(TimelineKind::operation, "aten::addmm");
  log.start_clock();
  log.end(now_ns());
  log.end(now_ns());
  log.enter_module(&second);
  log.leave_module();
  log.begin(TimelineKind::operation, "aten::addmm");
  log.end(now_ns());
  log.leave_module();
  log.begin(TimelineKind::operation, "aten::relu");
  log.end(now_ns());
  EXPECT_TRUE(log.is_outermost());

  const ThreadTimeline timeline = log.take();
  EXPECT_EQ(timeline.thread, 100);
  EXPECT_THAT(timeline.names, ElementsAre("aten::linear", "aten::addmm", "aten::relu"));
  std::vector<std::uint32_t> names;
  std::vector<std::uint32_t> modules;
  std::vector<std::uint32_t> parents;
  for (const TimelineEvent& event : timeline.events) {
    names.push_back(event.name);
    modules.push_back(event.module);
    parents.push_back(event.parent);
    EXPECT_GE(event.end_ns, event.start_ns);
  }
  EXPECT_THAT(names, ElementsAre(kNone, 0, 1, kNone, 1, 2));
  EXPECT_THAT(modules, ElementsAre(0, 0, 0, 1, 0, kNone));
  EXPECT_THAT(parents, ElementsAre(kNone, 0, 1, 0, 0, kNone));
  ASSERT_EQ(log.module_keys().size(), 2U);
  EXPECT_EQ(log.module_keys()[1].address, &second);
}

TEST(ThreadLog, KnowsModulesOfAScriptByTheModuleThatRunsIt) {
  EventQuota room(kPlenty);
  ThreadLog log(room, 100, 1);
  int model = 0;
  int other = 0;
  log.enter_module(&model);
  const std::uint32_t inner = log.module_named("layer.0");
  EXPECT_EQ(log.module_named("layer.0"), inner);
  EXPECT_NE(log.module_named("layer.1"), inner);
  log.leave_module();
  log.enter_module(&other);
  EXPECT_NE(log.module_named("layer.0"), inner);
  log.leave_module();
  EXPECT_EQ(log.module_keys()[inner].path, "layer.0");
  EXPECT_EQ(log.module_keys()[inner].holder, 0U);
}

TEST(ThreadLog, GivesWhatRunsInAnOperatorItsModule) {
  EventQuota room(kPlenty);
  ThreadLog log(room, 100, 1);
  int model = 0;
  log.enter_module(&model);
  log.begin(TimelineKind::operation, "aten::linear")->module = log.module_named("layer");
  log.begin(TimelineKind::operation, "aten::mm");
  log.end(now_ns());
  log.end(now_ns());
  log.begin(TimelineKind::operation, "aten::relu");
  log.end(now_ns());
  log.leave_module();
  const ThreadTimeline timeline = log.take();
  EXPECT_EQ(timeline.events[2].module, timeline.events[1].module);
  EXPECT_EQ(timeline.events[3].module, timeline.events[0].module);
}

TEST(ThreadLog, CountsWhatItHasNoRoomFor) {
  EventQuota room(3);
  ThreadLog log(room, 100, 1);
  int module = 0;
  for (int i = 0; i < 2; ++i) {
    log.enter_module(&module);
    log.begin(TimelineKind::operation, "outer");
    EXPECT_EQ(log.begin(TimelineKind::operation, "inner") != nullptr, i == 0);
    if (i == 0) {
      EXPECT_EQ(log.last_event(), 2U);
    }
    EXPECT_EQ(log.end(now_ns()), i == 0);
    EXPECT_FALSE(log.is_outermost());
    EXPECT_EQ(log.end(now_ns()), i == 0);
    EXPECT_TRUE(log.is_outermost());
    log.leave_module();
  }
  log.add_memory({});
  EXPECT_EQ(room.lost(), 4);
  const ThreadTimeline timeline = log.take();
  EXPECT_EQ(timeline.events.size(), 3U);
  EXPECT_THAT(timeline.memory, IsEmpty());
}

TEST(ThreadLog, SharesItsRoomWithOtherThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 10'000;
  EventQuota room(kThreads * kEach / 2);
  std::vector<std::int64_t> kept(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&room, &kept, t] {
        ThreadLog log(room, t, static_cast<std::uint64_t>(t));
        for (int i = 0; i < kEach; ++i) {
          log.begin(TimelineKind::operation, "aten::add");
          log.end(now_ns());
        }
        kept[static_cast<std::size_t>(t)] = static_cast<std::int64_t>(log.take().events.size());
      });
    }
  }
  std::int64_t all = 0;
  for (const std::int64_t one : kept)
    all += one;
  EXPECT_EQ(all + room.lost(), kThreads * kEach);
  EXPECT_LE(all, kThreads * kEach / 2);
  EXPECT_GT(all, kThreads * kEach / 2 - 4 * 256);
}

// Autograd launches on a thread of its own, which knows nothing of the spans of the training thread.
TEST(DeviceTimeline, WorkOfTheBackwardThreadGetsItsSpan) {
  constexpr std::int64_t kTraining = 1;
  constexpr std::int64_t kAutograd = 2;
  const std::vector<SpanRecord> spans = {
      {.name = span::kStep, .start_ns = 0, .end_ns = 100},
      {.name = span::kForward, .start_ns = 10, .end_ns = 40, .parent = 0},
      {.name = span::kBackward, .start_ns = 40, .end_ns = 80, .parent = 0},
      {.name = span::kBackward, .start_ns = 240, .end_ns = 280}};
  DeviceTimeline timeline;
  const auto add = [&](std::uint32_t correlation, std::int64_t thread, std::int64_t start_ns,
                       ScopeId span) {
    HostCall call;
    call.start_ns = start_ns;
    call.correlation = correlation;
    call.thread = thread;
    call.span = span;
    timeline.calls.push_back(call);
    DeviceKernel kernel;
    kernel.start_ns = start_ns + 500;  // whenever the device comes to it
    kernel.correlation = correlation;
    kernel.span = span;
    timeline.kernels.push_back(kernel);
  };
  add(1, kTraining, 20, scope_of_span(1));
  add(2, kAutograd, 50, 0);
  add(3, kAutograd, 250, 0);
  add(4, kAutograd, 20, 0);   // in no backward pass
  add(5, kAutograd, 150, 0);  // between two
  add(6, kTraining, 60, 0);   // of the training thread, which knows
  DeviceCopy copy;
  copy.correlation = 2;
  timeline.copies.push_back(copy);
  DeviceFill unlaunched;
  timeline.fills.push_back(unlaunched);
  place_backward_work(timeline, spans, kTraining);
  std::vector<ScopeId> placed;
  for (const DeviceKernel& kernel : timeline.kernels)
    placed.push_back(kernel.span);
  EXPECT_THAT(placed,
              ElementsAre(scope_of_span(1), scope_of_span(2), scope_of_span(3), 0U, 0U, 0U));
  EXPECT_EQ(timeline.calls[1].span, scope_of_span(2));
  EXPECT_EQ(timeline.copies[0].span, scope_of_span(2));
  EXPECT_EQ(timeline.fills[0].span, 0U);
}

TEST(ModuleSpan, IsNothingUnlessThisThreadRecords) {
  int module = 0;
  { const ModuleSpan span(&module); }
  EventQuota room(kPlenty);
  ThreadLog log(room, 100, 1);
  ThreadLog::set_current(&log);
  { const ModuleSpan span(&module); }
  std::jthread([&module] { const ModuleSpan span(&module); }).join();
  ThreadLog::set_current(nullptr);
  { const ModuleSpan span(&module); }
  EXPECT_EQ(log.take().events.size(), 1U);
}

}  // namespace
}  // namespace autotuned::profiler
