// SPDX-License-Identifier: Apache-2.0
// Steps that a check looks at.
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "tests/trainer/small_job.hpp"
#include "tests/trainer/updates.hpp"
#include "trainer/job/job.hpp"
#include "tuner/checks.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSteps = 8;  // those of the check

// The look at a process that was measured: from the initial state, at that place.
CheckedSteps look(Job& job, const Configuration& configuration, const std::string& name,
                  const std::string& from = "initial", const TrainingPosition& place = {}) {
  value_of(job.prepare(configuration));
  EXPECT_TRUE(job.restore(from, place));
  CheckedSteps checked = value_of(job.check_steps(
      {.steps = kSteps, .crosses_epoch = true, .keeps_outputs_before = true}, never));
  value_of(job.keep(name));
  return checked;
}

tuner::UpdateComparison compared(const Job& job, const CheckedSteps& reference,
                                 const CheckedSteps& candidate,
                                 const std::string& candidate_base = "initial",
                                 const std::string& base = "initial") {
  tuner::UpdateComparison updates =
      updates_of(value_of(job.compare(base, "reference", "candidate", candidate_base)),
                 reference.block.losses, candidate.block.losses);
  const auto told = [](const CheckedSteps& checked) {
    std::vector<tuner::UpdateComparison::StepInput> inputs;
    for (const StepInput& one : checked.inputs) {
      inputs.push_back({std::to_string(one.labels), std::to_string(one.images), one.projections});
    }
    return inputs;
  };
  updates.reference_inputs = told(reference);
  updates.candidate_inputs = told(candidate);
  return updates;
}

// What a session's check asks of trainers, of one job in this process.
class CheckedBackend final : public tuner::TrainingBackend {
 public:
  explicit CheckedBackend(trainer::Job& job) : job_(&job) {}

  Result<tuner::UpdateComparison> compare_updates(const Configuration& reference,
                                                  const Configuration& candidate,
                                                  std::int64_t steps,
                                                  tuner::CheckedSteps which) override {
    steps_ = steps;
    place_.reset();
    if (which != tuner::CheckedSteps::first) place_ = job_->place();
    base_ = "initial";
    if (which == tuner::CheckedSteps::reached) {
      base_ = "reached";
      place_->samples = samples_of_rate_;
      value_of(job_->keep(base_));
    }
    const CheckedSteps of_candidate = steps_of(candidate, "candidate", base_);
    const CheckedSteps of_reference = steps_of(reference, "reference", base_);
    return compared(*job_, of_reference, of_candidate, base_, base_);
  }
  // By whose learning rate looks from a reached state go.
  void set_samples_of_rate(std::int64_t samples) { samples_of_rate_ = samples; }
  Result<tuner::UpdateComparison> compare_rounded(const Configuration& configuration) override {
    const CheckedSteps of_reference = steps_of(configuration, "reference", base_);
    value_of(job_->round(base_, "rounded"));
    const CheckedSteps of_rounded = steps_of(configuration, "candidate", "rounded");
    return compared(*job_, of_reference, of_rounded, "rounded", base_);
  }

  Result<Block> run_block(const Configuration&, const tuner::BlockRequest&) override {
    return fail(ErrorKind::unsupported, "a check times nothing");
  }

 private:
  CheckedSteps steps_of(const Configuration& configuration, const std::string& name,
                        const std::string& from) {
    value_of(job_->prepare(configuration));
    EXPECT_TRUE(place_ ? job_->restore(from, *place_) : job_->restore(from));
    CheckedSteps checked = value_of(job_->check_steps({.steps = steps_,
                                                       .crosses_epoch = place_.has_value(),
                                                       .keeps_outputs_before = name == "reference"},
                                                      never));
    value_of(job_->keep(name));
    return checked;
  }

  trainer::Job* job_;
  std::int64_t steps_ = 0;
  std::optional<TrainingPosition> place_;
  std::string base_ = "initial";
  std::int64_t samples_of_rate_ = 0;
};

// recipes/resnet18_cifar_cpu.yaml with smaller pictures: a network that turns its own updates.
recipes::Recipe resnet_recipe() {
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"resnet18", {{"classes", 1000}}};
  recipe.data.parameters = {
      {"samples", 320}, {"shape", {3, 32, 32}}, {"classes", 10}, {"shuffle", true}};
  recipe.input = {{"resize", {{"size", 64}}},
                  {"to_float", Json::object()},
                  {"normalize", {{"mean", 0.5}, {"std", 0.5}}}};
  recipe.optimizer.parameters["lr"] = 0.001;
  recipe.train.batch_size = 16;
  recipe.evaluation.reset();
  recipe.tune.allow = {"numerics"};
  return recipe;
}

// PyTorch has fast convolutions in bfloat16 where a CPU has AVX-512. Elsewhere the tests of a ResNet take four minutes.
bool has_fast_bf16() {
  return __builtin_cpu_supports("avx512bw") != 0;
}

// Its updates turn by themselves; honest 16 bits turn them no more than that.
TEST(JobCheck, HonestAmpPassesAtAnUntrainedResNet) {
  if (!has_fast_bf16()) GTEST_SKIP() << "this CPU has no AVX-512";
  const recipes::Recipe recipe = resnet_recipe();
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  value_of(job->run_steps(3, never));  // as if it had been measured
  CheckedBackend checked(*job);
  tuner::SessionInput input;
  input.recipe = recipe;
  input.knobs = recipes::knobs_of(test_machine());
  input.starting = starting(recipe);
  input.job_facts = {{"device", "cpu"}};
  Configuration change;
  change.set("precision.autocast", std::string("bf16"));
  const auto checks = tuner::run_checks(input, checked, input.starting, change);
  ASSERT_TRUE(checks) << checks.error().message();
  ASSERT_EQ(checks->size(), 1U);
  EXPECT_EQ(checks->front().risk, "numerics");
  EXPECT_EQ(checks->front().compared, 62);
  EXPECT_TRUE(checks->front().passed) << checks->front().detail;
  RecordProperty("detail", checks->front().detail);
}

tuner::SessionInput input_of(const recipes::Recipe& recipe) {
  tuner::SessionInput input;
  input.recipe = recipe;
  input.knobs = recipes::knobs_of(test_machine());
  input.starting = starting(recipe);
  input.job_facts = {{"device", "cpu"}, {"train_samples", 320}};
  return input;
}

// No false alarm late in a training: updates are small there, and sixteen bits change the answers by more than the steps do.
TEST(JobCheck, HonestAmpPassesAtATrainedResNet) {
  if (!has_fast_bf16()) GTEST_SKIP() << "this CPU has no AVX-512";
  recipes::Recipe recipe = resnet_recipe();
  recipe.optimizer.parameters["lr"] = 0.01;
  recipe.schedule = {"cosine", {{"warmup_ratio", 0.0}, {"min_lr_ratio", 0.0}}};
  recipe.train.epochs = 1;
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration amp = with(starting(recipe), "precision.autocast", std::string("bf16"));
  // The whole training, in 32 bits: a CPU without AVX-512 takes thirty times as long for sixteen.
  value_of(job->prepare(starting(recipe)));
  value_of(job->run_steps(20, never));
  CheckedBackend checked(*job);
  checked.set_samples_of_rate(288);
  const auto check = tuner::check_trained(input_of(recipe), checked, amp);
  ASSERT_TRUE(check) << check.error().message();
  EXPECT_TRUE(check->passed) << check->detail;
  EXPECT_EQ(check->compared, 62) << check->detail;
  RecordProperty("detail", check->detail);
}

// At the end of its schedule a job learns nothing, and the place says what to go by.
TEST(JobCheck, APlaceMayHaveTheLearningRateOfOtherSamples) {
  recipes::Recipe recipe = small_recipe();
  recipe.schedule = {"cosine", {{"warmup_ratio", 0.0}, {"min_lr_ratio", 0.0}}};
  const auto job = load(recipe);
  value_of(job->run_steps(20, never));  // two epochs: all of it
  value_of(job->keep("end"));
  const std::string end = value_of(job->digest());
  TrainingPosition place = job->place();
  EXPECT_TRUE(job->restore("end", place));
  value_of(job->run_steps(2, never));
  EXPECT_EQ(value_of(job->digest()), end) << "the schedule has come to zero";
  place.samples = 360;
  EXPECT_TRUE(job->restore("end", place));
  EXPECT_EQ(job->samples(), 360);
  value_of(job->run_steps(2, never));
  EXPECT_NE(value_of(job->digest()), end);
  place.samples = -1;
  EXPECT_FALSE(job->restore("end", place));
}

TEST(JobCheck, AnotherWayOfLoadingIsEqualWhereverTheJobStands) {
  const auto job = load(small_cnn_recipe());
  const Configuration start = starting(small_cnn_recipe());
  const TrainingPosition place = {.epoch = 3, .sample = 60, .steps = 33};
  const CheckedSteps reference = look(*job, start, "reference", "initial", place);
  EXPECT_EQ(reference.block.steps, kSteps);
  EXPECT_EQ(reference.block.losses.size(), 8U);
  EXPECT_EQ(job->steps(), 33 + kSteps);
  ASSERT_EQ(reference.inputs.size(), 8U);
  EXPECT_EQ(reference.inputs[0].projections.size(), 20U);
  // Two steps before the end of epoch 3, then two of the next.
  EXPECT_EQ(job->place().epoch, 4);
  EXPECT_EQ(job->place().sample, 40);
  const Configuration loaded =
      with(with(start, "loader.workers", std::int64_t{2}), "transfer.dtype", std::string("uint8"));
  const CheckedSteps candidate = look(*job, loaded, "candidate", "initial", place);
  const CheckRecord check = tuner::check_equal(compared(*job, reference, candidate));
  EXPECT_TRUE(check.passed) << check.detail;
}

TEST(JobCheck, OtherSamplesAreSeen) {
  const auto job = load(small_cnn_recipe());
  const Configuration start = starting(small_cnn_recipe());
  const CheckedSteps reference = look(*job, start, "reference");
  const CheckedSteps candidate = look(*job, start, "candidate", "initial", {.epoch = 1});
  const tuner::UpdateComparison updates = compared(*job, reference, candidate);
  EXPECT_THAT(tuner::check_equal(updates).detail,
              HasSubstr("of step 1 differ from the reference's"));
  EXPECT_THAT(tuner::check_numerics(updates).detail,
              HasSubstr("of step 1 differ from the reference's"));
}

TEST(JobCheck, LooksWithoutAnyEffectOnTheTraining) {
  const auto job = load(small_cnn_recipe());
  value_of(job->run_steps(kSteps, never));
  const std::string expected = value_of(job->digest());
  EXPECT_TRUE(job->restore("initial"));
  value_of(job->check_steps({.steps = kSteps, .keeps_outputs_before = true}, never));
  EXPECT_EQ(value_of(job->digest()), expected);
  EXPECT_EQ(job->place().sample, kSteps * 20);
}

TEST(JobCheck, EvaluatesAPartOfTheTestDataBeforeTheSteps) {
  const auto job = load(small_recipe());
  const TestResult whole = value_of(job->evaluate(never));
  const CheckedSteps all = value_of(job->check_steps({.steps = 1, .test_samples = 512}, never));
  ASSERT_TRUE(all.test);
  EXPECT_EQ(all.test->samples, 50);
  EXPECT_EQ(all.test->loss, whole.loss);
  EXPECT_EQ(all.test->accuracy, whole.accuracy);
  EXPECT_TRUE(job->restore("initial"));
  const CheckedSteps some = value_of(job->check_steps({.steps = 1, .test_samples = 30}, never));
  ASSERT_TRUE(some.test);
  EXPECT_EQ(some.test->samples, 40) << "whole batches";
  EXPECT_FALSE(value_of(job->check_steps({.steps = 1}, never)).test);
}

TEST(JobCheck, WithoutTestDataTheModelAnswersWhatItTrainsOn) {
  recipes::Recipe recipe = small_recipe();
  recipe.evaluation.reset();
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const CheckedSteps reference = look(*job, starting(recipe), "reference");
  EXPECT_EQ(job->place().epoch, 1);
  EXPECT_EQ(job->place().sample, 40) << "its place in training is as it was";
  look(*job, starting(recipe), "candidate");
  const Comparison comparison = value_of(job->compare("initial", "reference", "candidate"));
  ASSERT_TRUE(comparison.outputs);
  EXPECT_GT(comparison.outputs->reference_change, 0.0);
  EXPECT_TRUE(comparison.is_equal);
  EXPECT_FALSE(reference.test);
}

recipes::Recipe adamw_recipe(double weight_decay) {
  recipes::Recipe recipe = small_cnn_recipe();
  recipe.optimizer = {
      "adamw",
      {{"lr", 1e-3}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", weight_decay}}};
  return recipe;
}

// Too small to show in the updates of eight steps.
TEST(JobCheck, WeightDecayThatIsLeftOutIsSeen) {
  const Folder folder;
  const auto job = load(adamw_recipe(0.01));
  const Configuration start = starting(adamw_recipe(0.01));
  const CheckedSteps reference = look(*job, start, "reference");
  const auto other = load(adamw_recipe(0.0));
  const CheckedSteps candidate = look(*other, start, "candidate");
  value_of(other->export_to(folder / "candidate", "candidate", ""));
  value_of(job->import_from(folder / "candidate", "candidate"));
  tuner::UpdateComparison updates = compared(*job, reference, candidate);
  ASSERT_FALSE(updates.idle.empty());
  const CheckRecord check = tuner::check_numerics(updates);
  EXPECT_FALSE(check.passed);
  EXPECT_THAT(check.detail, HasSubstr("weight decay or momentum of"));
  updates.idle.clear();
  EXPECT_TRUE(tuner::check_numerics(updates).passed) << "nothing else shows it";
}

TEST(JobCheck, AnHonestOptimizerDecaysAsTheReference) {
  const auto job = load(adamw_recipe(0.01));
  const Configuration start = starting(adamw_recipe(0.01));
  const CheckedSteps reference = look(*job, start, "reference");
  const CheckedSteps candidate = look(*job, with(start, "optimizer.fused", true), "candidate");
  const tuner::UpdateComparison updates = compared(*job, reference, candidate);
  ASSERT_FALSE(updates.idle.empty());
  const CheckRecord check = tuner::check_numerics(updates);
  EXPECT_TRUE(check.passed) << check.detail;
}

// Numbers so large that a training in fp16 leaves out its first steps, until its loss scale has come down.
TEST(JobCheck, ALossScaleThatIsTooHighIsNoFault) {
  recipes::Recipe recipe = small_recipe();
  recipe.input.back() = {"normalize", {{"mean", 0.5}, {"std", 0.001}}};
  const Configuration fp16 = with(starting(recipe), "precision.autocast", std::string("fp16"));
  const auto job = load(recipe, fp16);
  ASSERT_NE(job, nullptr);
  const auto moved = [&](const std::string& name) {
    const Comparison comparison = value_of(job->compare("initial", name, name));
    EXPECT_TRUE(comparison.is_finite);
    return std::ranges::any_of(comparison.parameters, [](const ParameterComparison& parameter) {
      return parameter.reference_norm > 0.0;
    });
  };
  for (const char* const name : {"reference", "candidate"}) {
    EXPECT_TRUE(job->restore("initial"));
    const CheckedSteps checked = value_of(job->check_steps({.steps = 1}, never));
    EXPECT_EQ(checked.block.steps, 1);
    EXPECT_EQ(checked.inputs.size(), 1U);
    EXPECT_EQ(job->place().sample, 20);
    EXPECT_EQ(job->steps(), 1);
    value_of(job->keep(name));
    EXPECT_TRUE(moved(name)) << name;
  }
  EXPECT_TRUE(value_of(job->compare("initial", "reference", "candidate")).is_equal);
  // A training is as it was.
  EXPECT_TRUE(job->restore("initial"));
  value_of(job->run_steps(1, never));
  value_of(job->keep("trained"));
  EXPECT_FALSE(moved("trained"));
}

// What was kept for its checkpoint has the size of all parameters.
TEST(JobCheck, ThatIsCancelledLeavesNothingInTheNextCheckpoint) {
  const auto job = load(small_recipe());
  ASSERT_NE(job, nullptr);
  value_of(job->run_steps(1, never));
  const std::int64_t bytes = value_of(job->keep("before"));
  int asked = 0;  // first in the step without gradients
  const auto cancelled = job->check_steps({.steps = kSteps, .keeps_outputs_before = true},
                                          [&asked] { return ++asked == 2; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(value_of(job->keep("after")), bytes);
}

TEST(JobCheck, RefusesAPlaceThatTheDataDoNotHave) {
  const auto job = load(small_recipe());
  EXPECT_FALSE(job->restore("initial", {.epoch = 0, .sample = 201}));
  EXPECT_FALSE(job->restore("initial", {.epoch = -1}));
  EXPECT_TRUE(job->restore("initial", {.epoch = 7, .sample = 200}));
}

}  // namespace
}  // namespace autotuned::trainer
