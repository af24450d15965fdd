// SPDX-License-Identifier: Apache-2.0
#include "recipes/schedule.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "tests/golden.hpp"
#include "tests/places.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

Recipe with(const std::string& schedule) {
  return right(std::string(kQuickRecipe) + "schedule: " + schedule + "\n");
}

// At each of `steps` steps of 10 samples, in epochs of 50.
std::vector<double> course(const std::string& schedule, int steps) {
  const Recipe recipe = with(schedule);
  std::vector<double> factors;
  for (int i = 0; i < steps; ++i) {
    factors.push_back(
        schedule_factor(recipe.schedule, i * 10,
                        {.samples_per_epoch = 50, .samples = steps * 10, .samples_per_step = 10}));
  }
  return factors;
}

template <std::size_t kCount>
void expect_near(const std::vector<double>& actual, const std::array<double, kCount>& expected) {
  ASSERT_EQ(actual.size(), kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-11) << i;
}

TEST(Schedule, KnowsWhatOfItDependsOnTheLength) {
  const auto dependence = [](const std::string& schedule) {
    return length_dependence(with(schedule).schedule);
  };
  EXPECT_EQ(length_dependence(right(kQuickRecipe).schedule), LengthDependence::none);
  for (const char* none :
       {"{type: constant, warmup_steps: 7}", "{type: step, step_epochs: 2, warmup_epochs: 1}",
        "{type: multi_step, epochs: [2, 5]}", "{type: exponential, gamma: 0.9}"})
    EXPECT_EQ(dependence(none), LengthDependence::none) << none;
  EXPECT_EQ(dependence("{type: exponential, gamma: 0.9, warmup_ratio: 0.1}"),
            LengthDependence::warmup);
  for (const char* course :
       {"{type: cosine}", "{type: polynomial, warmup_steps: 3}", "{type: one_cycle}"})
    EXPECT_EQ(dependence(course), LengthDependence::course) << course;
}

// So that a training which goes on from a shorter one's end ends in the same bits.
TEST(Schedule, DoesNotDependOnTheLengthByRoundingEither) {
  for (const char* schedule : {"{type: exponential, gamma: 0.7, warmup_epochs: 1.5}",
                               "{type: constant, warmup_steps: 13}"}) {
    const Component typed = with(schedule).schedule;
    for (std::int64_t seen = 0; seen < 300; seen += 10) {
      const auto factor_of = [&](std::int64_t samples) {
        return schedule_factor(
            typed, seen, {.samples_per_epoch = 70, .samples = samples, .samples_per_step = 10});
      };
      EXPECT_EQ(factor_of(300), factor_of(1'130)) << schedule << " " << seen;
    }
  }
}

TEST(Schedule, ConstantIsExactlyOne) {
  for (const double factor : course("{type: constant}", 20))
    EXPECT_EQ(factor, 1.0);
  EXPECT_EQ(right(kQuickRecipe).schedule.type, "constant");
}

// The numbers are those of PyTorch's StepLR(step_size=2, gamma=0.1), one per epoch.
TEST(Schedule, StepIsPyTorchsStepLr) {
  const std::vector<double> steps = course("{type: step, step_epochs: 2}", 30);
  constexpr std::array kEpochs{1.0, 1.0, 0.1, 0.1, 0.01, 0.01};
  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_NEAR(steps[i], kEpochs[i / 5], 1e-15) << i;
}

// The numbers are those of PyTorch's CosineAnnealingLR(T_max=10), one per step.
TEST(Schedule, CosineIsPyTorchsCosineAnnealingLr) {
  expect_near(course("{type: cosine}", 10),
              std::array{1.0, 0.975528258148, 0.904508497187, 0.793892626146, 0.654508497187, 0.5,
                         0.345491502813, 0.206107373854, 0.095491502813, 0.024471741852});
}

// SequentialLR of LinearLR(start_factor=0.01, total_iters=4) and CosineAnnealingLR(T_max=16,
// eta_min=0.05), one per step.
TEST(Schedule, WarmupIsPyTorchsLinearLr) {
  expect_near(
      course("{type: cosine, warmup_ratio: 0.2, min_lr_ratio: 0.05}", 20),
      std::array{0.01,           0.2575,         0.505,          0.7525,         1.0,
                 0.990873008192, 0.963842777943, 0.919948065844, 0.860875721064, 0.788895860684,
                 0.706774630373, 0.617667902958, 0.525,          0.432332097042, 0.343225369627,
                 0.261104139316, 0.189124278936, 0.130051934156, 0.086157222057, 0.059126991808});
}

// The rates that reference.py had from PyTorch's schedulers: one per step, in epochs of 5 steps.
TEST(Schedule, ComputesPyTorchsRates) {
  std::ifstream file(tests::source_folder() / "tests/recipes/data/schedules.json");
  const Json cases = Json::parse(file);
  ASSERT_FALSE(cases.empty());
  for (const Json& one : cases) {
    const auto schedule = one.at("schedule").get<std::string>();
    SCOPED_TRACE(schedule);
    const auto rates = one.at("rates").get<std::vector<double>>();
    const std::vector<double> factors = course(schedule, static_cast<int>(rates.size()));
    ASSERT_EQ(factors.size(), rates.size());
    for (std::size_t i = 0; i < rates.size(); ++i)
      EXPECT_NEAR(factors[i], rates[i], 1e-12) << i;
  }
}

TEST(Schedule, OneCycleOfASingleStepIsFinite) {
  for (const char* start : {"0", "0.3", "1"}) {
    const Component schedule =
        with(std::string("{type: one_cycle, pct_start: ") + start + "}").schedule;
    const double factor = schedule_factor(
        schedule, 0, {.samples_per_epoch = 10, .samples = 10, .samples_per_step = 10});
    EXPECT_TRUE(factor > 0.0 && factor <= 1.0) << start << " " << factor;
  }
}

TEST(Schedule, StaysAtTheEndAsThere) {
  const Component cosine = with("{type: cosine, min_lr_ratio: 0.25}").schedule;
  const CourseLength length{.samples_per_epoch = 50, .samples = 100};
  EXPECT_DOUBLE_EQ(schedule_factor(cosine, 100, length), 0.25);
  EXPECT_DOUBLE_EQ(schedule_factor(cosine, 100'000, length), 0.25);
  const Component warmup = with("{type: cosine, warmup_ratio: 1}").schedule;
  EXPECT_DOUBLE_EQ(schedule_factor(warmup, 50, length), 0.505);
  EXPECT_DOUBLE_EQ(schedule_factor(warmup, 100, length), 1.0);
}

TEST(Schedule, CountsInAJobsIdentityOnlyWhenItSaysSomething) {
  const std::string hash = right(kQuickRecipe).hash();
  EXPECT_EQ(with("{type: constant}").hash(), hash);
  EXPECT_FALSE(with("{type: constant}").to_json().contains("schedule"));
  EXPECT_NE(with("{type: cosine}").hash(), hash);
  EXPECT_NE(with("{type: constant, warmup_epochs: 1}").hash(), hash);
  EXPECT_NE(with("{type: cosine, warmup_ratio: 0.1}").hash(), with("{type: cosine}").hash());
}

TEST(Schedule, SurvivesJson) {
  const Recipe recipe = with("{type: step, step_epochs: 30, gamma: 0.5}");
  const Recipe again = Recipe::from_json(recipe.to_json()).value();
  EXPECT_EQ(again.to_json(), recipe.to_json());
  EXPECT_EQ(again.schedule.parameters, Json({{"step_epochs", 30}, {"gamma", 0.5}}));
}

TEST(Schedule, RefusesJsonThatItCannotFollow) {
  const auto error_of = [](const Json& schedule) {
    Json json = right(kQuickRecipe).to_json();
    json["schedule"] = schedule;
    const auto read = Recipe::from_json(json);
    return read ? std::string() : read.error().message();
  };
  EXPECT_EQ(error_of({{"type", "constant"}}), "");
  tests::Cases cases;
  for (const Json& schedule :
       {Json{{"type", "linear"}}, Json{{"type", "step"}, {"gamma", 0.1}},
        Json{{"type", "step"}, {"step_epochs", 0}, {"gamma", 0.1}},
        Json{{"type", "step"}, {"step_epochs", 2}, {"gamma", 7}},
        Json{{"type", "cosine"}, {"warmup_ratio", 0.1}},
        Json{{"type", "constant"}, {"warmup_ratio", 2}},
        Json{{"type", "multi_step"}, {"epochs", {0, 3}}, {"gamma", 0.1}},
        Json{{"type", "exponential"}}, Json{{"type", "plateau"}, {"patience", 3}},
        Json{{"type", "one_cycle"},
             {"pct_start", 0.3},
             {"div_factor", 0},
             {"final_div_factor", 10},
             {"anneal", "cos"}}})
    cases.add(schedule.dump(), error_of(schedule));
  tests::expect_golden("recipes/golden/schedules.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::recipes
