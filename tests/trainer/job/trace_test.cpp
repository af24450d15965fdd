// SPDX-License-Identifier: Apache-2.0
// Traces of real steps, read again.
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <map>
#include <set>

#include "profiler/recorder/torch_timeline.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Gt;
using testing::IsEmpty;
using testing::Not;
using traces::EventKind;
using traces::Trace;

class JobTraces : public testing::Test {
 protected:
  // Records a trace of `job` and reads it again.
  Trace trace(Job& job, TraceRequest request = {.warmup = 1, .active = 3}) {
    request.file = folder_ / "a.pt.trace.json.gz";
    told_ = value_of(job.trace(request, never));
    auto read = traces::read_trace(request.file);
    if (!read) {
      ADD_FAILURE() << read.error().message();
      return {};
    }
    EXPECT_THAT(read->damage, IsEmpty());
    return std::move(*read);
  }
  Trace trace(const recipes::Recipe& recipe,
              const TraceRequest& request = {.warmup = 1, .active = 3}) {
    const auto job = load(recipe);
    return trace(*job, request);
  }

  static std::vector<std::size_t> rows(const Trace& trace, const std::string& name) {
    std::vector<std::size_t> found;
    for (std::size_t row = 0; row < trace.events.size(); ++row) {
      if (trace.name_of(row) == name) found.push_back(row);
    }
    return found;
  }
  // The modules that operators of this name ran in; "" for none.
  static std::set<std::string> modules(const Trace& trace, const std::string& name) {
    std::set<std::string> found;
    for (const std::size_t row : rows(trace, name)) {
      const traces::NameId module = trace.events.module[row];
      found.insert(module == traces::kNoDetail ? "" : trace.names.text(module));
    }
    return found;
  }
  static std::vector<std::string> names_of(const Trace& trace, EventKind kind) {
    std::vector<std::string> found;
    for (std::size_t row = 0; row < trace.events.size(); ++row) {
      if (trace.events.kind[row] == kind) found.push_back(trace.name_of(row));
    }
    return found;
  }

  Folder folder_;
  JobTrace told_;
};

class HeardOperators final : public profiler::ScopeListener {
 public:
  void enter_operator(profiler::ScopeId operation) noexcept override {
    entered.push_back(operation);
    ++open;
  }
  void leave_operator() noexcept override { --open; }
  void enter_span(profiler::ScopeId /*span*/) noexcept override {}
  void leave_span() noexcept override {}

  std::vector<profiler::ScopeId> entered;
  int open = 0;
};

TEST(TimelineRecorder, TellsAListenerOfOperatorsByTheirPlace) {
  HeardOperators heard;
  profiler::TimelineRecorder recorder({.listener = &heard});
  at::empty({2}).fill_(1).flatten();
  const profiler::Timeline timeline = recorder.stop({});
  ASSERT_EQ(timeline.threads.size(), 1U);
  const profiler::ThreadTimeline& thread = timeline.threads[0];
  ASSERT_GE(thread.events.size(), 3U);
  ASSERT_EQ(heard.entered.size(), thread.events.size());
  for (std::size_t i = 0; i < heard.entered.size(); ++i)
    EXPECT_EQ(heard.entered[i], profiler::scope_of_operator(0, i));
  EXPECT_EQ(heard.open, 0);
}

TEST(TimelineRecorder, TellsAListenerOnlyOfWhatItRecords) {
  HeardOperators heard;
  profiler::TimelineRecorder recorder({.most_events = 1, .listener = &heard});
  at::empty({2}).fill_(1);
  EXPECT_EQ(recorder.stop({}).threads[0].events.size(), 1U);
  EXPECT_EQ(heard.entered.size(), 1U);
  EXPECT_EQ(heard.open, 0);
}

TEST_F(JobTraces, HaveNothingToSayOfAGpuThatIsNotUsed) {
  EXPECT_THAT(trace(small_recipe()).notes, IsEmpty());
  EXPECT_THAT(told_.notes, IsEmpty());
}

TEST_F(JobTraces, HoldTheActiveStepsOnly) {
  const auto job = load(small_recipe());
  const Trace recorded =
      trace(*job, {.skip_first = 1, .wait = 2, .warmup = 1, .active = 2, .repeat = 2});
  EXPECT_THAT(names_of(recorded, EventKind::step),
              ElementsAre("ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#9", "ProfilerStep#10"));
  EXPECT_EQ(job->steps(), 11);
  EXPECT_EQ(told_.steps, 4);
  EXPECT_EQ(told_.lost_events, 0);
  EXPECT_EQ(told_.events, static_cast<std::int64_t>(recorded.events.size()));
  // Two layers in each.
  EXPECT_EQ(rows(recorded, "aten::addmm").size(), 8U);
  EXPECT_EQ(rows(recorded, "AddmmBackward0").size(), 8U);
}

TEST_F(JobTraces, StepsHoldWhatIsDoneInThem) {
  const Trace recorded = trace(small_recipe());
  const traces::Events& events = recorded.events;
  const auto steps = rows(recorded, "ProfilerStep#1");
  ASSERT_EQ(steps.size(), 1U);
  for (const char* name : {"forward", "loss", "backward", "transfer", "Optimizer.step#sgd.step",
                           "Optimizer.zero_grad#sgd.zero_grad",
                           "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"}) {
    const auto spans = rows(recorded, name);
    ASSERT_EQ(spans.size(), 3U) << name;
    EXPECT_GE(events.start_ns[spans[0]], events.start_ns[steps[0]]) << name;
    EXPECT_LE(events.end_ns(spans[0]), events.end_ns(steps[0])) << name;
  }
}

TEST_F(JobTraces, ShowCheckpointsBesideTheSteps) {
  for (const bool is_async : {false, true}) {
    const auto job =
        load(small_recipe(), with(starting(small_recipe()), "checkpoint.async", is_async));
    ASSERT_NE(job, nullptr);
    const std::filesystem::path file = folder_ / "checkpoint";
    const Trace recorded = trace(*job, {.active = 2, .repeat = 2, .checkpoint_file = file});
    const traces::Events& events = recorded.events;
    const auto saved = rows(recorded, "checkpoint");
    const auto copied = rows(recorded, "checkpoint_copy");
    ASSERT_EQ(saved.size(), 2U);  // one for each cycle
    ASSERT_EQ(copied.size(), 2U);
    EXPECT_EQ(rows(recorded, "checkpoint_write").size(), is_async ? 0U : 2U);
    EXPECT_GE(events.start_ns[copied[0]], events.start_ns[saved[0]]);
    EXPECT_LE(events.end_ns(copied[0]), events.end_ns(saved[0]));
    for (const char* step : {"ProfilerStep#0", "ProfilerStep#1"}) {
      const auto steps = rows(recorded, step);
      ASSERT_EQ(steps.size(), 1U);
      EXPECT_LE(events.end_ns(steps[0]), events.start_ns[saved[0]]);
    }
    EXPECT_FALSE(std::filesystem::exists(file));
  }
}

TEST_F(JobTraces, KnowTheModuleOfEveryOperatorAndItsBackward) {
  const Trace recorded = trace(small_cnn_recipe());
  EXPECT_THAT(modules(recorded, "aten::conv2d"), ElementsAre("model.conv1", "model.conv2"));
  EXPECT_THAT(modules(recorded, "aten::relu"), ElementsAre("model"));
  EXPECT_THAT(modules(recorded, "ConvolutionBackward0"), ElementsAre("model.conv1", "model.conv2"));
  EXPECT_THAT(modules(recorded, "aten::convolution_backward"),
              ElementsAre("model.conv1", "model.conv2"));
  EXPECT_THAT(modules(recorded, "autograd::engine::evaluate_function: ConvolutionBackward0"),
              ElementsAre("model.conv1", "model.conv2"));
  EXPECT_THAT(modules(recorded, "AddmmBackward0"), ElementsAre("model.linear"));
  EXPECT_THAT(modules(recorded, "MaxPool2DWithIndicesBackward0"), ElementsAre("model"));
  EXPECT_THAT(modules(recorded, "torch::autograd::AccumulateGrad"),
              ElementsAre("model.conv1", "model.conv2", "model.linear"));
  EXPECT_THAT(modules(recorded, "aten::cross_entropy_loss"), ElementsAre(""));
  EXPECT_THAT(names_of(recorded, EventKind::module), Contains("model.conv1").Times(3));
}

TEST_F(JobTraces, ChargeGatherToPatchDropout) {
  const Trace recorded = trace(patch_dropout_recipe());
  EXPECT_THAT(modules(recorded, "aten::gather"), ElementsAre("model.patch_drop"));
  EXPECT_THAT(modules(recorded, "GatherBackward0"), ElementsAre("model.patch_drop"));
}

TEST_F(JobTraces, KnowTheModulesOfAScript) {
  torch::jit::Module layer("Layer");
  layer.register_parameter("weight", at::empty({4, 64}).fill_(0.1).set_requires_grad(true), false);
  layer.define("def forward(self, x):\n    return torch.linear(x, self.weight)\n");
  torch::jit::Module block("Block");
  block.register_module("layer", layer);
  block.define("def forward(self, x):\n    return torch.sigmoid(self.layer.forward(x))\n");
  torch::jit::Module net("Net");
  net.register_module("block", block);
  net.define("def forward(self, x):\n    return torch.relu(self.block.forward(x.flatten(1)))\n");
  net.save(folder_ / "net.pt");

  recipes::Recipe recipe = small_recipe();
  recipe.model = {"torchscript", {{"file", (folder_ / "net.pt").string()}}};
  const Trace recorded = trace(recipe);
  EXPECT_THAT(modules(recorded, "aten::linear"), ElementsAre("model.block.layer"));
  EXPECT_THAT(modules(recorded, "aten::sigmoid"), ElementsAre("model.block"));
  EXPECT_THAT(modules(recorded, "aten::relu"), ElementsAre("model"));
  EXPECT_THAT(modules(recorded, "SigmoidBackward0"), ElementsAre("model.block"));
  EXPECT_THAT(modules(recorded, "MmBackward0"), ElementsAre("model.block.layer"));
  EXPECT_THAT(modules(recorded, "torch::autograd::AccumulateGrad"),
              ElementsAre("model.block.layer"));
}

TEST_F(JobTraces, ShowTheTransformsOfEveryWorker) {
  recipes::Recipe recipe = small_recipe();
  recipe.input.insert(recipe.input.begin(), {"random_flip", {{"probability", 0.5}}});
  const auto job = load(recipe, with(starting(recipe), "loader.workers", std::int64_t{2}));
  ASSERT_NE(job, nullptr);
  const Trace recorded = trace(*job, {.active = 8});
  std::set<std::uint32_t> training;
  for (const std::size_t row : rows(recorded, "forward"))
    training.insert(recorded.events.thread[row]);
  const auto parts = rows(recorded, "random_flip");
  EXPECT_THAT(parts, Not(IsEmpty()));
  for (const std::size_t row : parts)
    EXPECT_FALSE(training.contains(recorded.events.thread[row]));
  EXPECT_THAT(rows(recorded, "make_samples"), Not(IsEmpty()));
  EXPECT_THAT(names_of(recorded, EventKind::data_loading),
              Each("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"));
}

TEST_F(JobTraces, HaveShapesAndMemoryOnRequest) {
  const auto job = load(small_recipe());
  const Trace plain = trace(*job);
  EXPECT_FALSE(plain.has_input_types);
  EXPECT_THAT(plain.memory, IsEmpty());
  const Trace full = trace(*job, {.warmup = 1, .active = 2, .shapes = true, .memory = true});
  const auto products = rows(full, "aten::addmm");
  ASSERT_THAT(products, Not(IsEmpty()));
  EXPECT_EQ(full.names.text(full.events.detail[products[0]]),
            "[\"float\", \"float\", \"float\", \"Scalar\", \"Scalar\"]");
  EXPECT_EQ(full.names.text(full.events.values[products[0]]), "[\"\", \"\", \"\", \"1\", \"1\"]");
  std::vector<std::int64_t> bytes;
  for (const traces::MemoryPoint& point : full.memory)
    bytes.push_back(point.bytes);
  EXPECT_THAT(bytes, Contains(20 * 16 * 4));   // the hidden layer's output
  EXPECT_THAT(bytes, Contains(-20 * 16 * 4));  // and its end
}

TEST_F(JobTraces, LoseWhatHasNoRoomAndSaySo) {
  const auto job = load(small_recipe());
  const Trace whole = trace(*job, {.active = 5});
  const auto most = static_cast<std::int64_t>(whole.events.size()) / 2;
  const Trace part = trace(*job, {.active = 5, .most_events = most});
  EXPECT_GT(told_.lost_events, 0);
  EXPECT_LT(part.events.size(), whole.events.size());
  const std::size_t steps = names_of(part, EventKind::step).size();
  EXPECT_THAT(steps, testing::AllOf(Gt(0U), testing::Lt(5U)));
  EXPECT_EQ(rows(part, "step that was recorded in part").size(), 5 - steps);
  EXPECT_THAT(part.notes, testing::SizeIs(2));
}

TEST_F(JobTraces, OfSlowStepsHaveFewer) {
  const auto job = load(small_recipe());
  const Trace recorded =
      trace(*job, {.wait = 2, .warmup = 2, .active = 5, .repeat = 3, .maximum_ns = 1});
  EXPECT_EQ(names_of(recorded, EventKind::step).size(), 1U);
  EXPECT_EQ(told_.steps, 1);
}

TEST_F(JobTraces, ChangeNothingOfTheTraining) {
  const auto one = load(small_cnn_recipe());
  const auto two = load(small_cnn_recipe());
  trace(*one, {.warmup = 2, .active = 3, .shapes = true, .memory = true});
  value_of(two->run_steps(5, never));
  EXPECT_EQ(value_of(one->digest()), value_of(two->digest()));
}

TEST_F(JobTraces, EndWhenCancelledAndLeaveNoFile) {
  const auto job = load(small_recipe());
  const auto cancelled =
      job->trace({.file = folder_ / "b.json.gz", .active = 5}, [] { return true; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::cancelled);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.json.gz"));
  EXPECT_EQ(names_of(trace(*job), EventKind::step).size(), 3U);
}

TEST_F(JobTraces, NameAFileThatCannotBeWritten) {
  const auto job = load(small_recipe());
  const auto failed = job->trace({.file = folder_ / "missing" / "b.json.gz"}, never);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace autotuned::trainer
