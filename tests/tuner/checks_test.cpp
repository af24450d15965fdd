// SPDX-License-Identifier: Apache-2.0
// The check must reject what loss curves cannot show: here are the updates that such defects make.
#include "tuner/checks.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/golden.hpp"
#include "tests/tuner/simulation.hpp"

namespace autotuned::tuner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Vector = std::vector<double>;

double norm(const Vector& v) {
  double sum = 0.0;
  for (const double x : v)
    sum += x * x;
  return std::sqrt(sum);
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

// A model of three parameters that is trained with momentum on gradients which a test can spoil.
struct Training {
  // What the defect makes of a gradient: parameter, element, value.
  std::function<double(int, std::size_t, double)> spoil = [](int, std::size_t, double g) {
    return g;
  };
  double momentum = 0.9;

  [[nodiscard]] std::vector<Vector> updates(std::int64_t steps) const {
    const std::vector<double> scales = {1.0, 0.05,
                                        1e-7};  // the last: a bias before a normalisation
    std::vector<Vector> updates;
    for (int p = 0; p < 3; ++p) {
      Vector update(64, 0.0);
      Vector velocity(64, 0.0);
      std::mt19937_64 engine(static_cast<std::uint64_t>(p) + 1);
      std::normal_distribution<double> normal(0.5, 1.0);
      Vector direction(64);
      for (double& d : direction)
        d = normal(engine);
      for (std::int64_t s = 0; s < steps; ++s) {
        for (std::size_t i = 0; i < 64; ++i) {
          const double noisy = direction[i] + 0.3 * normal(engine);
          const double gradient = spoil(p, i, scales[static_cast<std::size_t>(p)] * noisy);
          velocity[i] = momentum * velocity[i] + gradient;
          update[i] -= 0.1 * velocity[i];
        }
      }
      updates.push_back(std::move(update));
    }
    return updates;
  }
};

UpdateComparison compare(const Training& reference, const Training& candidate, std::int64_t steps) {
  UpdateComparison comparison{.steps = steps, .equal = false, .finite = true};
  const auto a = reference.updates(steps);
  const auto b = candidate.updates(steps);
  for (std::size_t p = 0; p < a.size(); ++p) {
    const double an = norm(a[p]);
    const double bn = norm(b[p]);
    comparison.parameters.push_back(
        {"p" + std::to_string(p), an, bn / an, bn > 0.0 ? dot(a[p], b[p]) / (an * bn) : 0.0});
  }
  // The losses agree: none of the defects below would be seen in them.
  comparison.reference_losses.assign(static_cast<std::size_t>(steps), 2.3);
  comparison.candidate_losses.assign(static_cast<std::size_t>(steps), 2.31);
  return comparison;
}

TEST(Checks, NumericsAcceptRounding) {
  Training rounded;
  rounded.spoil = [](int p, std::size_t i, double g) {
    const double rounding = 1.0 + 0.004 * (static_cast<double>((i * 7) % 5) - 2.0);
    // What is rounding only in the reference may point anywhere.
    return p == 2 ? -2.0 * g : g * rounding;
  };
  std::string details;
  for (const std::int64_t steps : {1, 8}) {
    const CheckRecord check = check_numerics(compare({}, rounded, steps));
    EXPECT_TRUE(check.passed) << check.detail;
    EXPECT_EQ(check.risk, "numerics");
    EXPECT_EQ(check.steps, steps);
    details += check.detail + "\n";
  }
  tests::expect_golden("tuner/golden/checks_rounding.txt", details);
}

// A job whose updates turn by themselves when nothing but rounding differs.
TEST(Checks, NumericsAskOfNoCandidateWhatTheJobDoesNotKeep) {
  UpdateComparison updates = compare({}, {}, 8);
  updates.parameters[1].cosine = 0.55;
  EXPECT_FALSE(check_numerics(updates).passed);
  UpdateComparison own = compare({}, {}, 8);
  EXPECT_FALSE(check_numerics(updates, &own).passed) << "the job keeps its directions";
  own.parameters[1].cosine = 0.6;
  const CheckRecord check = check_numerics(updates, &own);
  EXPECT_TRUE(check.passed) << check.detail;
  tests::expect_golden("tuner/golden/checks_own.txt", check.detail + "\n");
  own.parameters[1].cosine = 0.85;
  EXPECT_FALSE(check_numerics(updates, &own).passed) << "0.57 of it";
  own.parameters[1].cosine = 0.6;
  own.parameters[0].cosine = 0.6;
  updates.parameters[0].cosine = 0.3;
  EXPECT_FALSE(check_numerics(updates, &own).passed) << "each for itself";
}

TEST(Checks, NumericsRejectTheSameDefectsInSuchAJob) {
  UpdateComparison own = compare({}, {}, 8);
  for (auto& parameter : own.parameters)
    parameter.cosine = 0.1;
  Training halved;
  halved.spoil = [](int, std::size_t, double g) { return g / 2.0; };
  EXPECT_FALSE(check_numerics(compare({}, halved, 8), &own).passed);
  Training frozen;
  frozen.spoil = [](int p, std::size_t, double g) { return p == 1 ? 0.0 : g; };
  EXPECT_FALSE(check_numerics(compare({}, frozen, 8), &own).passed);
  Training forgetful;
  forgetful.momentum = 0.0;
  EXPECT_FALSE(check_numerics(compare({}, forgetful, 8), &own).passed);
  Training turned;
  turned.spoil = [](int p, std::size_t, double g) { return p == 0 ? -g : g; };
  EXPECT_FALSE(check_numerics(compare({}, turned, 8), &own).passed);
}

struct Defect {
  const char* given;
  double (*spoil)(int parameter, std::size_t element, double gradient);
  double momentum = 0.9;
};

const Defect kDefects[] = {
    {"halved gradients", [](int, std::size_t, double g) { return g / 2.0; }},
    {"doubled gradients", [](int, std::size_t, double g) { return g * 2.0; }},
    {"frozen p0", [](int p, std::size_t, double g) { return p == 0 ? 0.0 : g; }},
    {"frozen p1", [](int p, std::size_t, double g) { return p == 1 ? 0.0 : g; }},
    {"frozen p2", [](int p, std::size_t, double g) { return p == 2 ? 0.0 : g; }},
    {"every other gradient zeroed",
     [](int, std::size_t i, double g) { return i % 2 == 0 ? 0.0 : g; }},
    {"no momentum", [](int, std::size_t, double g) { return g; }, 0.0},
    {"half of p1 turned", [](int p, std::size_t i, double g) { return p == 1 && i < 32 ? -g : g; }},
    {"halved gradients of p0 and p1",
     [](int p, std::size_t, double g) { return p < 2 ? g / 2.0 : g; }},
    {"p2, which hardly moves, grows",
     [](int p, std::size_t, double g) { return p == 2 ? g * 1e6 : g; }},
};

TEST(Checks, NumericsRejectDefects) {
  tests::Cases cases;
  for (const Defect& defect : kDefects) {
    Training training;
    training.spoil = defect.spoil;
    training.momentum = defect.momentum;
    const CheckRecord check = check_numerics(compare({}, training, 8));
    EXPECT_FALSE(check.passed) << defect.given;
    cases.add(defect.given, check.detail);
    const std::string given = defect.given;
    if (given == "halved gradients" || given == "every other gradient zeroed") {
      EXPECT_FALSE(check_numerics(compare({}, training, 1)).passed) << "one step shows it";
    }
    if (given == "no momentum") {
      EXPECT_TRUE(check_numerics(compare({}, training, 1)).passed) << "one step cannot tell";
    }
  }
  tests::expect_golden("tuner/golden/checks_defects.txt", cases.text());
}

// Who failed, for those who can do something about it.
TEST(Checks, NumericsNameTheParametersThatFail) {
  Training training;
  training.spoil = [](int p, std::size_t i, double g) { return p == 1 && i < 32 ? -g : g; };
  CheckRecord check = check_numerics(compare({}, training, 8));
  EXPECT_THAT(check.parameters, ElementsAre("p1"));
  EXPECT_EQ(check.failed, 1);
  EXPECT_EQ(check.compared, 3);
  training.spoil = [](int p, std::size_t, double g) { return p < 2 ? g / 2.0 : g; };
  check = check_numerics(compare({}, training, 8));
  EXPECT_THAT(check.parameters, ElementsAre("p0", "p1"));
  UpdateComparison many = compare({}, training, 1);
  many.parameters.resize(250, many.parameters[0]);
  check = check_numerics(many);
  EXPECT_EQ(check.parameters.size(), 100U);
  EXPECT_EQ(check.failed, 249);
  check = check_numerics(compare({}, {}, 8));
  EXPECT_THAT(check.parameters, IsEmpty());
  EXPECT_EQ(check.failed, 0);
  EXPECT_EQ(check.compared, 3);
}

// The trainer's ratio is infinite then, which JSON cannot carry.
TEST(Checks, NumericsRejectAParameterThatOnlyTheCandidateMoves) {
  UpdateComparison updates = compare({}, {}, 8);
  const double largest = updates.parameters[0].reference_norm;
  UpdateComparison::Parameter& still = updates.parameters[2];
  still = {.name = "still", .reference_norm = 0.0, .norm_ratio = 1.0, .cosine = 1.0};
  EXPECT_TRUE(check_numerics(updates).passed) << "it moves in neither";
  still.norm_ratio = std::nan("");
  still.candidate_norm = largest;
  tests::Cases cases;
  CheckRecord check = check_numerics(updates);
  EXPECT_FALSE(check.passed);
  cases.add("it moves as far as the others", check.detail);
  EXPECT_THAT(check.parameters, ElementsAre("still"));
  still.candidate_norm = 1e-6 * largest;
  EXPECT_TRUE(check_numerics(updates).passed) << "rounding";
  still.candidate_norm.reset();
  check = check_numerics(updates);
  EXPECT_FALSE(check.passed) << "nobody says by how much";
  cases.add("it moves, and nobody says how far", check.detail);
  tests::expect_golden("tuner/golden/checks_still.txt", cases.text());
}

TEST(Checks, NothingFiniteOrNothingMovedIsRejected) {
  const double nan = std::nan("");
  UpdateComparison updates = compare({}, {}, 8);
  updates.finite = false;
  EXPECT_FALSE(check_numerics(updates).passed);
  EXPECT_FALSE(check_semantics(updates, "rule").passed);
  updates = compare({}, {}, 8);
  updates.parameters[0].norm_ratio = nan;
  EXPECT_FALSE(check_numerics(updates).passed);
  updates = compare({}, {}, 8);
  updates.parameters[0].cosine = nan;
  EXPECT_FALSE(check_numerics(updates).passed);
  updates = compare({}, {}, 8);
  updates.candidate_losses[0] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(check_numerics(updates).passed);
  EXPECT_FALSE(check_semantics(updates, "rule").passed);
  updates.parameters.clear();
  EXPECT_FALSE(check_numerics(updates).passed);
}

// Running averages as a batch normalisation keeps them.
UpdateComparison with_statistics() {
  UpdateComparison updates = compare({}, {}, 8);
  updates.buffers.push_back({{"norm.running_mean", 0.4, 1.02, 0.99, 0.41}, true, false});
  updates.buffers.push_back({{"norm.running_var", 5.0, 0.98, 0.999, 4.9}, true, false});
  updates.buffers.push_back({{"norm.num_batches_tracked", 8.0, 1.0, 1.0, 8.0}, false, true});
  updates.buffers.push_back({{"table", 0.0, 1.0, 1.0, 0.0}, true, true});
  return updates;
}

TEST(Checks, HoldEverythingAgainstTheReference) {
  tests::Cases cases;
  const auto refuse = [&cases](const char* given, const CheckRecord& check) {
    EXPECT_FALSE(check.passed) << given;
    cases.add(given, check.detail);
  };
  UpdateComparison updates = compare({}, {}, 8);
  EXPECT_TRUE(check_numerics(updates).passed);
  updates.candidate_losses[5] = 2.6;
  refuse("another loss in one step", check_numerics(updates));
  updates.candidate_losses.pop_back();
  refuse("a loss is missing", check_numerics(updates));

  updates = compare({}, {}, 8);
  refuse("not equal", check_equal(updates));
  updates.equal = true;
  EXPECT_TRUE(check_equal(updates).passed);
  for (auto& parameter : updates.parameters)
    parameter.reference_norm = 0.0;
  refuse("equal, and nothing moves", check_equal(updates));

  EXPECT_TRUE(check_numerics(with_statistics()).passed);
  updates = with_statistics();
  updates.buffers[0].update.norm_ratio = 0.0;
  updates.buffers[0].update.cosine = 0.0;
  refuse("a buffer is frozen", check_numerics(updates));
  updates = with_statistics();
  updates.buffers[1].update.norm_ratio = 0.7;
  refuse("a buffer is updated more rarely", check_numerics(updates));
  updates = with_statistics();
  updates.buffers[2].is_equal = false;
  refuse("another count of batches", check_numerics(updates));
  updates = with_statistics();
  updates.buffers[3] = {{"table", 0.0, std::nan(""), 0.0, 1e-9}, true, false};
  refuse("a buffer that the reference leaves alone", check_numerics(updates));

  updates = compare({}, {}, 8);
  updates.outputs = {.reference_change = 2.0, .difference = 0.1};
  EXPECT_TRUE(check_numerics(updates).passed);
  updates.outputs->difference = 1.2;
  refuse("other answers", check_numerics(updates));
  UpdateComparison own = compare({}, {}, 8);
  own.outputs = {.reference_change = 2.0, .difference = 1.0};
  EXPECT_TRUE(check_numerics(updates, &own).passed) << "the job by itself differs as much";
  updates.outputs->difference = 2.0;
  own.outputs->difference = 2.0;
  refuse("answers as if nothing had been learned", check_numerics(updates, &own));
  updates.outputs->difference = std::nan("");
  refuse("answers that are no numbers", check_numerics(updates));
  tests::expect_golden("tuner/golden/checks.txt", cases.text());
}

// Late steps are short: where rounding the start alone changes lengths, or answers by more than the steps, less is asked.
TEST(Checks, ReachedWeightsAreHeldAgainstWhatRoundingMakesOfThem) {
  UpdateComparison updates = compare({}, {}, 8);
  updates.parameters[0].norm_ratio = 0.75;
  updates.outputs = {.reference_change = 0.1, .difference = 0.25};
  UpdateComparison own = compare({}, {}, 8);
  own.parameters[0].norm_ratio = 1.25;
  own.outputs = {.reference_change = 0.1, .difference = 0.1};
  EXPECT_FALSE(check_reached(updates, false).passed);
  EXPECT_FALSE(check_numerics(updates, &own).passed) << "not from the initial weights";
  const CheckRecord check = check_reached(updates, false, &own);
  EXPECT_TRUE(check.passed) << check.detail;
  EXPECT_EQ(check.risk, "numerics");

  std::string details;
  updates.outputs->difference = 0.45;
  EXPECT_FALSE(check_reached(updates, false, &own).passed);
  details += check_reached(updates, false, &own).detail + "\n";
  updates.outputs->difference = 0.25;
  updates.parameters[0].norm_ratio = 0.65;
  EXPECT_FALSE(check_reached(updates, false, &own).passed);
  details += check_reached(updates, false, &own).detail + "\n";
  tests::expect_golden("tuner/golden/checks_reached.txt", details);
  // However much the job does by itself, what stands still is seen.
  own.parameters[0].norm_ratio = 0.01;
  updates.parameters[0].norm_ratio = 0.1;
  EXPECT_FALSE(check_reached(updates, false, &own).passed);
}

// When a gradient stops, only the momentum is left.
TEST(Checks, ReachedWeightsShowAGradientThatHasStopped) {
  Training warm;
  Training stopped;
  int calls = 0;
  const auto gradient_until = [&calls](int last) {
    return [&calls, last](int, std::size_t i, double g) {
      if (i == 0) ++calls;
      return calls <= last ? g : 0.0;
    };
  };
  // One parameter's worth of steps at a time: `updates` makes them parameter by parameter.
  UpdateComparison comparison{.steps = 8, .equal = false, .finite = true};
  constexpr int kBefore = 40;
  const auto whole = warm.updates(kBefore + 8);
  const auto start = warm.updates(kBefore);
  for (std::size_t p = 0; p < 2; ++p) {
    calls = -static_cast<int>(p) * (kBefore + 8);
    stopped.spoil = gradient_until(kBefore);
    const auto halted = stopped.updates(kBefore + 8);
    Vector reference;
    Vector candidate;
    for (std::size_t i = 0; i < whole[p].size(); ++i) {
      reference.push_back(whole[p][i] - start[p][i]);
      candidate.push_back(halted[p][i] - start[p][i]);
    }
    const double an = norm(reference);
    const double bn = norm(candidate);
    comparison.parameters.push_back(
        {"p" + std::to_string(p), an, bn / an, dot(reference, candidate) / (an * bn)});
  }
  comparison.reference_losses.assign(8, 2.3);
  comparison.candidate_losses.assign(8, 2.3);
  const CheckRecord check = check_reached(comparison, false);
  EXPECT_FALSE(check.passed) << check.detail;
  EXPECT_EQ(check.failed, 2);
}

UpdateComparison with_inputs() {
  UpdateComparison updates = compare({}, {}, 3);
  updates.equal = true;
  for (int step = 0; step < 3; ++step) {
    const double base = step;
    updates.reference_inputs.push_back({"a" + std::to_string(step),
                                        "b" + std::to_string(step),
                                        {base, 3.0 - base, -5.0 * base, 1.0}});
  }
  updates.candidate_inputs = updates.reference_inputs;
  return updates;
}

TEST(Checks, TheModelMustBeGivenTheSameBatches) {
  UpdateComparison updates = with_inputs();
  EXPECT_TRUE(check_equal(updates).passed);
  EXPECT_TRUE(check_numerics(updates).passed);
  tests::Cases cases;
  const auto refuse = [&](const char* given) {
    EXPECT_FALSE(check_equal(updates).passed) << given;
    const CheckRecord check = check_numerics(updates);
    EXPECT_FALSE(check.passed) << given;
    cases.add(given, check.detail);
  };
  updates.candidate_inputs[2] = updates.candidate_inputs[1];
  refuse("one batch twice");
  updates.candidate_inputs[2].labels = updates.reference_inputs[2].labels;
  refuse("its samples twice");
  updates.candidate_inputs[2].projections.pop_back();
  refuse("a smaller batch");
  updates.candidate_inputs.pop_back();
  refuse("a batch too few");
  tests::expect_golden("tuner/golden/checks_inputs.txt", cases.text());
}

// A job that has learned all it can, or has come to NaN, says nothing about updates, but still about samples.
TEST(Checks, ReachedWeightsThatDoNotMoveShowOnlyWhatTheModelWasGiven) {
  for (const bool is_exact : {true, false}) {
    UpdateComparison still = with_inputs();
    for (auto& parameter : still.parameters)
      parameter.reference_norm = 0.0;
    const CheckRecord check = check_reached(still, is_exact);
    EXPECT_TRUE(check.passed);
    EXPECT_EQ(check.risk, is_exact ? "exact" : "numerics");
    EXPECT_NE(check.detail.find("the reference moves no parameter"), std::string::npos);
    UpdateComparison lost = with_inputs();
    lost.finite = false;
    lost.reference_losses.back() = std::nan("");
    EXPECT_TRUE(check_reached(lost, is_exact).passed);
    for (UpdateComparison* updates : {&still, &lost}) {
      updates->candidate_inputs[1].labels = "others";
      EXPECT_FALSE(check_reached(*updates, is_exact).passed);
    }
  }
  UpdateComparison lost_by_candidate = with_inputs();
  lost_by_candidate.finite = false;
  EXPECT_FALSE(check_reached(lost_by_candidate, false).passed);
}

TEST(Checks, SamplesMayDifferByRoundingWhereNumericsAreAllowed) {
  UpdateComparison updates = with_inputs();
  updates.candidate_inputs[1].images = "c";
  for (double& projection : updates.candidate_inputs[1].projections)
    projection += 0.01;
  EXPECT_TRUE(check_numerics(updates).passed);
  EXPECT_FALSE(check_equal(updates).passed);
}

// A batch of one sample has no spread of its own.
TEST(Checks, OneSampleAStepIsComparedAsWell) {
  for (const std::size_t steps : {std::size_t{3}, std::size_t{1}}) {
    UpdateComparison updates = with_inputs();
    updates.reference_inputs.resize(steps);
    for (std::size_t step = 0; step < steps; ++step)
      updates.reference_inputs[step].projections = {5.0 - 4.0 * static_cast<double>(step)};
    updates.candidate_inputs = updates.reference_inputs;
    EXPECT_TRUE(check_numerics(updates).passed);
    updates.candidate_inputs[0].images = "rounded";
    updates.candidate_inputs[0].projections = {5.01};
    EXPECT_TRUE(check_numerics(updates).passed) << check_numerics(updates).detail;
    // Where the signs nearly cancel out, rounding is a larger share.
    updates.candidate_inputs[0].projections = {5.3};
    EXPECT_TRUE(check_numerics(updates).passed) << check_numerics(updates).detail;
    updates.candidate_inputs[0].images = "another";
    updates.candidate_inputs[0].projections = {1.0};
    EXPECT_FALSE(check_numerics(updates).passed) << steps;
  }
}

// AdamW with a learning rate of 1e-3 and a decay of 0.01 takes a hundred-thousandth of a parameter in a step.
TEST(Checks, WeightDecayThatIsLeftOutIsSeen) {
  UpdateComparison updates = compare({}, {}, 3);
  const double decay = 1e-5;
  for (const auto& [difference, passes] :
       {std::pair{1e-7, true}, std::pair{decay, false}, std::pair{0.3 * decay, false},
        std::pair{std::numeric_limits<double>::quiet_NaN(), false}}) {
    updates.idle.clear();
    updates.idle.push_back({.name = "weight",
                            .reference_norm = decay,
                            .difference = difference,
                            .parameter_norm = 1.0});
    const CheckRecord check = check_numerics(updates);
    EXPECT_EQ(check.passed, passes) << difference << ": " << check.detail;
    if (!passes) {
      EXPECT_NE(check.detail.find("weight decay or momentum of weight"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace autotuned::tuner
