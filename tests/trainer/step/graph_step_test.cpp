// SPDX-License-Identifier: Apache-2.0
// Steps that are recorded and replayed, with a recorder that calls the work anew at every replay.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/trainer/small_job.hpp"
#include "trainer/common/guarded.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/step/graph_step.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Action = GraphPlan::Action;

StepKey key(std::int64_t batch, std::uintptr_t memory = 1) {
  return {.batch = {batch}, .memory = {reinterpret_cast<const void*>(memory)}};
}

constexpr int kRuns = GraphPlan::kRunsBefore;

// So many steps in a row of that key do the same.
void expect_steps(GraphPlan& plan, const StepKey& key, int count, Action action) {
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(plan.next(key), action) << "step " << i;
}

// A plan that has recorded a step of that key.
GraphPlan recorded(const StepKey& key) {
  GraphPlan plan;
  expect_steps(plan, key, kRuns, Action::run);
  EXPECT_EQ(plan.next(key), Action::record);
  return plan;
}

TEST(GraphPlan, RunsUntilAllIsChosenThenRecordsAndReplays) {
  static_assert(kRuns > 3, "TorchScript specialises in its second and third run");
  GraphPlan plan = recorded(key(32));
  expect_steps(plan, key(32), 2, Action::replay);
}

TEST(GraphPlan, AShortBatchRunsAndChangesNothing) {
  GraphPlan plan = recorded(key(32));
  for (int epoch = 0; epoch < 2 * kRuns; ++epoch) {
    EXPECT_EQ(plan.next(key(7)), Action::run);
    EXPECT_EQ(plan.next(key(32)), Action::replay);
  }
}

TEST(GraphPlan, WhatComesUsuallyIsRecordedInstead) {
  GraphPlan plan = recorded(key(32));
  expect_steps(plan, key(64), kRuns, Action::run);
  EXPECT_EQ(plan.next(key(64)), Action::record);
  EXPECT_EQ(plan.next(key(64)), Action::replay);
  EXPECT_EQ(plan.next(key(32)), Action::run);
}

TEST(GraphPlan, MovedMemoryIsRecordedAnew) {
  GraphPlan plan = recorded(key(32, 1));
  EXPECT_EQ(plan.next(key(32, 2)), Action::run);
  // Again somewhere else: it counts from here.
  expect_steps(plan, key(32, 3), kRuns, Action::run);
  EXPECT_EQ(plan.next(key(32, 3)), Action::record);
}

TEST(GraphPlan, ForgetsAll) {
  GraphPlan plan = recorded(key(32));
  EXPECT_EQ(plan.next(key(32)), Action::replay);
  plan.forget();
  expect_steps(plan, key(32), kRuns, Action::run);
  EXPECT_EQ(plan.next(key(32)), Action::record);
}

// Keeps to the protocol, and sees that others do.
class FakeRecorder final : public GraphRecorder {
 public:
  struct Calls {
    int asides = 0;
    int records = 0;
    int replays = 0;
    int drops = 0;             // of what was recorded
    std::string failure;       // of the next recording
    bool is_scripted = false;  // as TorchScript's interpreter tells it
  };

  explicit FakeRecorder(Calls& calls) : calls_(calls) {}

  void run_aside(const std::function<void()>& work) override {
    ++calls_.asides;
    work();
  }
  void record(const std::function<void()>& work) override {
    EXPECT_FALSE(work_) << "what was recorded before is still there";
    if (calls_.is_scripted && !calls_.failure.empty()) {
      throw std::runtime_error(
          "The following operation failed in the TorchScript interpreter.\n"
          "Traceback of TorchScript (most recent call last):\nRuntimeError: " +
          calls_.failure);
    }
    TORCH_CHECK(calls_.failure.empty(), calls_.failure);
    ++calls_.records;
    work_ = work;
  }
  void replay() override {
    ASSERT_TRUE(work_) << "nothing is recorded";
    ++calls_.replays;
    work_();
  }
  void drop() override {
    if (work_) ++calls_.drops;
    work_ = nullptr;
  }

 private:
  Calls& calls_;
  std::function<void()> work_;
};

DeviceBatch batch_of(std::int64_t samples, float value) {
  DeviceBatch batch;
  batch.images = at::full({samples, 1, 8, 8}, value);
  batch.labels = at::arange(samples).remainder(4);
  batch.samples = samples;
  return batch;
}

TEST(GraphStep, ReadsEveryBatchWhereTheRecordedOneLay) {
  FakeRecorder::Calls calls;
  GraphStep steps(std::make_unique<FakeRecorder>(calls));
  std::vector<const void*> seen;
  const GraphStep::Parts parts{.work =
                                   [&](const DeviceBatch& batch) {
                                     seen.push_back(batch.images.const_data_ptr());
                                     return batch.images.sum();
                                   },
                               .before_recording = [] {},
                               .memory = {}};
  std::vector<at::Tensor> losses;
  constexpr int kGraphSteps = kRuns + 4;
  for (int i = 0; i < kGraphSteps; ++i)
    losses.push_back(steps.step(batch_of(2, static_cast<float>(i)), parts));
  for (int i = 0; i < kGraphSteps; ++i)  // each is the caller's own
    EXPECT_EQ(losses[static_cast<std::size_t>(i)].item<float>(), 128.0F * static_cast<float>(i));
  ASSERT_EQ(seen.size(), kGraphSteps);
  for (std::size_t i = kRuns; i < kGraphSteps; ++i)
    EXPECT_EQ(seen[i], seen[kRuns]);
  EXPECT_EQ(calls.asides, kRuns);
  EXPECT_EQ(calls.records, 1);
  EXPECT_EQ(calls.replays, 4);
}

TEST(GraphStep, WhatCannotBeRecordedIsUnsupported) {
  FakeRecorder::Calls calls;
  GraphStep steps(std::make_unique<FakeRecorder>(calls));
  const GraphStep::Parts parts{.work = [](const DeviceBatch& one) { return one.images.sum(); },
                               .before_recording = [] {},
                               .memory = {}};
  for (int i = 0; i < kRuns; ++i)
    (void)steps.step(batch_of(2, 1), parts);
  const auto step = [&] {
    return guarded("training step", [&]() -> Result<void> {
      (void)steps.step(batch_of(2, 1), parts);
      return {};
    });
  };
  for (const bool is_scripted : {false, true}) {
    calls.is_scripted = is_scripted;
    calls.failure = "operation not permitted when stream is capturing";
    auto done = step();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(done.error().message(), HasSubstr("cannot be recorded: operation not permitted"));
    EXPECT_THAT(done.error().message(), HasSubstr("leave cuda.graph off"));
    // And it starts over.
    for (int i = 0; i < kRuns; ++i)
      EXPECT_TRUE(step());
    calls.failure = "CUDA out of memory";
    done = step();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::out_of_memory);
    for (int i = 0; i < kRuns; ++i)
      EXPECT_TRUE(step());
  }
  EXPECT_EQ(calls.records, 0);
}

// --- a model in training --------------------------------------------------------------------------

class GraphTraining : public testing::Test {
 protected:
  struct Trained {
    std::vector<double> losses;
    Checkpoint end;
    FakeRecorder::Calls calls;
  };

  static std::unique_ptr<Learner> learner(const recipes::Recipe& recipe) {
    return value_of(Learner::create(recipe, {.channels = 1, .height = 8, .width = 8}, at::kCPU));
  }
  static DeviceBatch random_batch(std::int64_t samples, int step) {
    at::manual_seed(static_cast<std::uint64_t>(1000 + step));
    DeviceBatch batch = batch_of(samples, 0);
    batch.images = at::randn(batch.images.sizes());
    return batch;
  }
  // Ten steps under a schedule, one of them short, as plain fused steps or with a graph.
  static Trained train(const recipes::Recipe& recipe, LearnerSettings settings, bool is_graph,
                       bool has_inf = false) {
    Trained trained;
    const auto one = learner(recipe);
    if (is_graph) one->set_recorder(std::make_unique<FakeRecorder>(trained.calls));
    settings.is_graph = is_graph;
    one->configure(settings);
    for (int i = 0; i < 10; ++i) {
      DeviceBatch batch = random_batch(i == 6 ? 5 : 20, i);
      if (has_inf && (i == 0 || i == 7)) batch.images[0] = std::numeric_limits<float>::infinity();
      const at::Tensor loss = one->step(batch, 0.05 / (1 + i));
      trained.losses.push_back(loss.item().toDouble());
    }
    trained.end = one->capture();
    return trained;
  }
  // `tolerance`: of the largest element of a tensor.
  static void expect_same(const NamedTensors& a, const NamedTensors& b, double tolerance = 1e-5) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].first, b[i].first);
      EXPECT_EQ(a[i].second.scalar_type(), b[i].second.scalar_type()) << a[i].first;
      const auto difference = (a[i].second - b[i].second).abs().max().item<double>();
      const auto largest = b[i].second.abs().max().item<double>();
      EXPECT_LE(difference, tolerance * largest) << a[i].first;
    }
  }
  static recipes::Recipe recipe_with(const std::string& optimizer) {
    recipes::Recipe recipe = small_recipe();
    if (optimizer == "adagrad") {
      recipe.optimizer = {optimizer,
                          {{"lr", 0.01},
                           {"lr_decay", 0.1},
                           {"eps", 1e-10},
                           {"initial_accumulator_value", 0.1},
                           {"weight_decay", 0.01}}};
    } else if (optimizer != "sgd") {
      recipe.optimizer = {
          optimizer,
          {{"lr", 0.01}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.01}}};
    }
    if (optimizer == "nadam") recipe.optimizer.parameters["momentum_decay"] = 0.004;
    if (optimizer == "rmsprop") {
      recipe.optimizer.parameters.update({{"alpha", 0.9}, {"momentum", 0.5}, {"centered", true}});
    }
    return recipe;
  }
};

TEST_F(GraphTraining, TrainsLikeTheFusedOptimizerStepByStep) {
  for (const char* optimizer : {"sgd", "adam", "adamw", "adagrad", "nadam", "rmsprop", "lion"}) {
    for (const bool set_to_none : {false, true}) {
      SCOPED_TRACE(optimizer);
      const recipes::Recipe recipe = recipe_with(optimizer);
      const LearnerSettings settings{.set_to_none = set_to_none, .is_fused = true};
      const Trained plain = train(recipe, settings, false);
      const Trained graph = train(recipe, settings, true);
      EXPECT_THAT(graph.losses, testing::Pointwise(testing::DoubleNear(1e-5), plain.losses));
      expect_same(graph.end.parameters, plain.end.parameters);
      expect_same(graph.end.optimizer, plain.end.optimizer);
      // One run makes the optimizer's state, more come before the recording; the short one runs.
      EXPECT_EQ(graph.calls.asides, 1 + kRuns + 1);
      EXPECT_EQ(graph.calls.records, 1);
      EXPECT_EQ(graph.calls.replays, 10 - (1 + kRuns + 1));
    }
  }
}

TEST_F(GraphTraining, AStepThatIsNotFiniteChangesNothingAndDoesNotCount) {
  for (const char* optimizer : {"sgd", "adam", "adagrad", "nadam", "rmsprop", "lion"}) {
    SCOPED_TRACE(optimizer);
    const recipes::Recipe recipe = recipe_with(optimizer);
    const LearnerSettings settings{.autocast = at::kHalf, .is_fused = true};
    const Trained plain = train(recipe, settings, false, /*has_inf=*/true);
    const Trained graph = train(recipe, settings, true, /*has_inf=*/true);
    for (const auto& [name, parameter] : graph.end.parameters)
      EXPECT_TRUE(parameter.isfinite().all().item<bool>()) << name;
    // The last place of a parameter can become one of a sum in 16 bits.
    expect_same(graph.end.parameters, plain.end.parameters, 1e-3);
    expect_same(graph.end.optimizer, plain.end.optimizer, 1e-3);
    expect_same(graph.end.others, plain.end.others);
  }
}

TEST_F(GraphTraining, GoesOnFromACheckpointOfEitherForm) {
  const recipes::Recipe recipe = recipe_with("adam");
  FakeRecorder::Calls calls;
  const auto one = learner(recipe);
  one->set_recorder(std::make_unique<FakeRecorder>(calls));
  const Checkpoint initial = one->capture();
  const auto steps = [&](bool is_graph, int begin, int end) {
    one->configure({.is_fused = true, .is_graph = is_graph});
    for (int i = begin; i < end; ++i)
      (void)one->step(random_batch(20, i), 0.01);
  };
  steps(false, 0, 16);
  const Checkpoint expected = one->capture();
  for (const bool is_graph_first : {false, true}) {
    ASSERT_TRUE(one->restore(initial));
    steps(is_graph_first, 0, 6);
    const Checkpoint middle = one->capture();
    steps(is_graph_first, 6, 8);
    ASSERT_TRUE(one->restore(middle));
    steps(!is_graph_first, 6, 16);
    const Checkpoint end = one->capture();
    expect_same(end.parameters, expected.parameters);
    expect_same(end.optimizer, expected.optimizer);
  }
}

TEST_F(GraphTraining, RestoringKeepsWhatIsRecordedWhereNothingMoves) {
  FakeRecorder::Calls calls;
  const auto one = learner(small_recipe());
  one->set_recorder(std::make_unique<FakeRecorder>(calls));
  const Checkpoint initial = one->capture();
  one->configure({.is_graph = true});
  const auto steps = [&] {
    for (int i = 0; i < 6; ++i)
      (void)one->step(random_batch(20, i), 0.05);
    return one->capture();
  };
  const Checkpoint first = steps();
  EXPECT_EQ(calls.records, 1);
  ASSERT_TRUE(one->restore(first));  // in place
  (void)one->step(random_batch(20, 6), 0.05);
  EXPECT_EQ(calls.records, 1);
  ASSERT_TRUE(one->restore(initial));
  expect_same(steps().parameters, first.parameters);  // whether the optimizer's state moved or not
}

TEST_F(GraphTraining, PlainStepsAreNotReplayed) {
  FakeRecorder::Calls calls;
  const auto one = learner(small_recipe());
  one->set_recorder(std::make_unique<FakeRecorder>(calls));
  one->configure({.is_graph = true});
  for (int i = 0; i < 1 + kRuns + 2; ++i)
    (void)one->step(random_batch(20, i), 0.05);
  EXPECT_EQ(calls.replays, 2);
  {
    const Learner::PlainSteps plain(*one);
    int gradients = 0;
    const auto watch = one->watch_gradients([&](std::size_t) { ++gradients; });
    (void)one->step(random_batch(20, 5), 0.05);
    EXPECT_EQ(gradients, 4);
    EXPECT_EQ(calls.replays, 2);
  }
  (void)one->step(random_batch(20, 6), 0.05);
  EXPECT_EQ(calls.replays, 3);
}

TEST_F(GraphTraining, WhatTurnsItOffLetsGoOfIt) {
  FakeRecorder::Calls calls;
  const auto one = learner(small_recipe());
  one->set_recorder(std::make_unique<FakeRecorder>(calls));
  const auto replayed = [&] {
    one->configure({.is_graph = true});
    const int before = calls.replays;
    for (int i = 0; i < 1 + kRuns + 2; ++i)
      (void)one->step(random_batch(20, i), 0.05);
    return calls.replays > before;
  };
  EXPECT_TRUE(replayed());
  one->configure({});
  EXPECT_EQ(calls.drops, 1);
  EXPECT_TRUE(replayed());
  one->set_forward([&](const at::Tensor& images) { return images.flatten(1).narrow(1, 0, 4); });
  EXPECT_EQ(calls.drops, 2);
  one->set_forward(nullptr);
  EXPECT_TRUE(replayed());
  one->drop_step();
  EXPECT_EQ(calls.drops, 3);
}

// A replay would go on in the arithmetic, and with the kernels, of when it was recorded.
TEST_F(GraphTraining, WhatOtherKnobsMakeOfAStepIsRecordedAnew) {
  Machine machine = test_machine();
  machine.gpus.emplace_back();
  FakeRecorder::Calls calls;
  Job::State job(patch_dropout_recipe(), machine, "cpu", {});
  Configuration configuration = starting(patch_dropout_recipe());
  ASSERT_TRUE(job.load(configuration));
  job.learner().set_recorder(std::make_unique<FakeRecorder>(calls));
  configuration.set("cuda.graph", true);
  value_of(job.prepare(configuration));
  const auto train = [&] { value_of(job.run_steps(1 + kRuns + 2, never)); };
  train();
  EXPECT_EQ(calls.records, 1);
  EXPECT_GT(calls.replays, 0);
  // What a step does not depend on leaves it as it is.
  configuration.set("train.loss_reading", std::string("every_step"));
  value_of(job.prepare(configuration));
  EXPECT_EQ(calls.drops, 0);
  int changes = 0;
  for (const auto& [knob, value] :
       {std::pair<std::string, KnobValue>{"precision.tf32", true},
        std::pair<std::string, KnobValue>{"rewrite.gather", std::string("indexing")},
        std::pair<std::string, KnobValue>{"rewrite.gather", std::string("gather")},
        std::pair<std::string, KnobValue>{"precision.tf32", false}}) {
    SCOPED_TRACE(knob);
    configuration.set(knob, value);
    value_of(job.prepare(configuration));
    EXPECT_EQ(calls.drops, ++changes);
    train();
    EXPECT_EQ(calls.records, 1 + changes);
  }
}

}  // namespace
}  // namespace autotuned::trainer
