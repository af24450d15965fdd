// SPDX-License-Identifier: Apache-2.0
// The check must reject what loss curves cannot show: here are the updates that such defects make.
#include "tuner/checks.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/tuner/simulation.hpp"

namespace autotuned::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
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
  for (const std::int64_t steps : {1, 8}) {
    const CheckRecord check = check_numerics(compare({}, rounded, steps));
    EXPECT_TRUE(check.passed) << check.detail;
    EXPECT_EQ(check.risk, "numerics");
    EXPECT_EQ(check.steps, steps);
    EXPECT_THAT(check.detail, HasSubstr("2 of 3 updates"));
  }
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
  EXPECT_THAT(check.detail, HasSubstr("down to 0.40 allowed"));
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

TEST(Checks, NumericsRejectHalvedGradients) {
  Training halved;
  halved.spoil = [](int, std::size_t, double g) { return g / 2.0; };
  for (const std::int64_t steps : {1, 8}) {
    const CheckRecord check = check_numerics(compare({}, halved, steps));
    EXPECT_FALSE(check.passed);
    EXPECT_THAT(check.detail, HasSubstr("0.500 times"));
  }
}

TEST(Checks, NumericsRejectDoubledGradients) {
  Training doubled;
  doubled.spoil = [](int, std::size_t, double g) { return g * 2.0; };
  EXPECT_FALSE(check_numerics(compare({}, doubled, 8)).passed);
}

TEST(Checks, NumericsRejectFrozenLayers) {
  for (const int frozen : {0, 1, 2}) {
    Training training;
    training.spoil = [frozen](int p, std::size_t, double g) { return p == frozen ? 0.0 : g; };
    const CheckRecord check = check_numerics(compare({}, training, 8));
    EXPECT_FALSE(check.passed) << frozen;
    EXPECT_THAT(check.detail, HasSubstr("p" + std::to_string(frozen)));
  }
}

TEST(Checks, NumericsRejectHalfOfTheGradientsZeroed) {
  Training training;
  training.spoil = [](int, std::size_t i, double g) { return i % 2 == 0 ? 0.0 : g; };
  for (const std::int64_t steps : {1, 8}) {
    EXPECT_FALSE(check_numerics(compare({}, training, steps)).passed);
  }
}

TEST(Checks, NumericsRejectLostMomentum) {
  Training training;
  training.momentum = 0.0;
  EXPECT_TRUE(check_numerics(compare({}, training, 1)).passed) << "one step cannot tell";
  const CheckRecord check = check_numerics(compare({}, training, 8));
  EXPECT_FALSE(check.passed);
}

TEST(Checks, NumericsRejectTurnedGradients) {
  Training training;
  training.spoil = [](int p, std::size_t i, double g) { return p == 1 && i < 32 ? -g : g; };
  const CheckRecord check = check_numerics(compare({}, training, 8));
  EXPECT_FALSE(check.passed);
  EXPECT_THAT(check.detail, HasSubstr("cosine"));
}

// Who failed, for those who can do something about it.
TEST(Checks, NumericsNameTheParametersThatFail) {
  Training training;
  training.spoil = [](int p, std::size_t i, double g) { return p == 1 && i < 32 ? -g : g; };
  CheckRecord check = check_numerics(compare({}, training, 8));
  EXPECT_THAT(check.parameters, ElementsAre("p1"));
  EXPECT_EQ(check.failed, 1);
  EXPECT_EQ(check.compared, 3);
  EXPECT_THAT(check.detail, HasSubstr("; 1 of 3 parameters fail"));
  training.spoil = [](int p, std::size_t, double g) { return p < 2 ? g / 2.0 : g; };
  check = check_numerics(compare({}, training, 8));
  EXPECT_THAT(check.parameters, ElementsAre("p0", "p1"));
  EXPECT_THAT(check.detail, HasSubstr("the update of p0 is 0.500 times"));
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

TEST(Checks, NumericsRejectANegligibleParameterThatGrows) {
  Training training;
  training.spoil = [](int p, std::size_t, double g) { return p == 2 ? g * 1e6 : g; };
  const CheckRecord check = check_numerics(compare({}, training, 8));
  EXPECT_FALSE(check.passed);
  EXPECT_THAT(check.detail, HasSubstr("hardly moves"));
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
  CheckRecord check = check_numerics(updates);
  EXPECT_FALSE(check.passed);
  EXPECT_THAT(check.detail, HasSubstr("still hardly moves"));
  EXPECT_THAT(check.parameters, ElementsAre("still"));
  still.candidate_norm = 1e-6 * largest;
  EXPECT_TRUE(check_numerics(updates).passed) << "rounding";
  still.candidate_norm.reset();
  check = check_numerics(updates);
  EXPECT_FALSE(check.passed) << "nobody says by how much";
  EXPECT_THAT(check.detail, HasSubstr("how far it moves here is not known"));
}

TEST(Checks, NumericsRejectLossesApart) {
  UpdateComparison updates = compare({}, {}, 8);
  EXPECT_TRUE(check_numerics(updates).passed);
  updates.candidate_losses[5] = 2.6;
  const CheckRecord check = check_numerics(updates);
  EXPECT_FALSE(check.passed);
  EXPECT_THAT(check.detail, HasSubstr("step 6"));
  updates.candidate_losses.pop_back();
  EXPECT_FALSE(check_numerics(updates).passed);
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

TEST(Checks, ExactMeansEqual) {
  UpdateComparison updates = compare({}, {}, 8);
  updates.equal = false;
  EXPECT_FALSE(check_equal(updates).passed);
  EXPECT_THAT(check_equal(updates).detail, HasSubstr("lowest cosine 1.000000000"));
  updates.equal = true;
  EXPECT_TRUE(check_equal(updates).passed);
}

TEST(Checks, EqualityWhereNothingMovesProvesNothing) {
  UpdateComparison updates = compare({}, {}, 8);
  updates.equal = true;
  for (auto& parameter : updates.parameters)
    parameter.reference_norm = 0.0;
  const CheckRecord check = check_equal(updates);
  EXPECT_FALSE(check.passed);
  EXPECT_THAT(check.detail, HasSubstr("no parameter moves"));
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

TEST(Checks, NumericsHoldBuffersAgainstTheReference) {
  EXPECT_TRUE(check_numerics(with_statistics()).passed);
  UpdateComparison updates = with_statistics();
  updates.buffers[0].update.norm_ratio = 0.0;
  updates.buffers[0].update.cosine = 0.0;
  CheckRecord check = check_numerics(updates);
  EXPECT_FALSE(check.passed) << "frozen";
  EXPECT_THAT(check.detail, HasSubstr("norm.running_mean"));
  updates = with_statistics();
  updates.buffers[1].update.norm_ratio = 0.7;
  EXPECT_FALSE(check_numerics(updates).passed) << "updated more rarely";
  updates = with_statistics();
  updates.buffers[2].is_equal = false;
  check = check_numerics(updates);
  EXPECT_FALSE(check.passed) << "another count of batches";
  EXPECT_THAT(check.detail, HasSubstr("num_batches_tracked"));
  updates = with_statistics();
  updates.buffers[3] = {{"table", 0.0, std::nan(""), 0.0, 1e-9}, true, false};
  EXPECT_FALSE(check_numerics(updates).passed) << "the reference leaves it alone";
}

TEST(Checks, NumericsHoldOutputsAgainstTheReference) {
  UpdateComparison updates = compare({}, {}, 8);
  updates.outputs = {.reference_change = 2.0, .difference = 0.1};
  EXPECT_TRUE(check_numerics(updates).passed);
  updates.outputs->difference = 1.2;
  const CheckRecord check = check_numerics(updates);
  EXPECT_FALSE(check.passed);
  EXPECT_THAT(check.detail, HasSubstr("in evaluation mode"));
  UpdateComparison own = compare({}, {}, 8);
  own.outputs = {.reference_change = 2.0, .difference = 1.0};
  EXPECT_TRUE(check_numerics(updates, &own).passed) << "the job by itself differs as much";
  updates.outputs->difference = 2.0;
  own.outputs->difference = 2.0;
  EXPECT_FALSE(check_numerics(updates, &own).passed) << "as if nothing had been learned";
  updates.outputs->difference = std::nan("");
  EXPECT_FALSE(check_numerics(updates).passed);
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

  updates.outputs->difference = 0.4;
  EXPECT_THAT(check_reached(updates, false, &own).detail, HasSubstr("in evaluation mode"));
  updates.outputs->difference = 0.25;
  updates.parameters[0].norm_ratio = 0.65;
  EXPECT_THAT(check_reached(updates, false, &own).detail,
              HasSubstr("0.650 times as long as the reference's (0.7 to 1.43)"));
  // However much the job does by itself, what stands still is seen.
  own.parameters[0].norm_ratio = 0.01;
  updates.parameters[0].norm_ratio = 0.1;
  EXPECT_FALSE(check_reached(updates, false, &own).passed);
}

// Of a gradient that stops there is only the momentum left.
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
  const auto details = [&] {
    EXPECT_FALSE(check_equal(updates).passed);
    const CheckRecord check = check_numerics(updates);
    EXPECT_FALSE(check.passed);
    return check.detail;
  };
  updates.candidate_inputs[2] = updates.candidate_inputs[1];
  EXPECT_THAT(details(), HasSubstr("the labels of step 3 differ from the reference's"));
  updates.candidate_inputs[2].labels = updates.reference_inputs[2].labels;
  EXPECT_THAT(details(), HasSubstr("the samples of step 3 differ from the reference's"));
  updates.candidate_inputs[2].projections.pop_back();
  EXPECT_THAT(details(), HasSubstr("in step 3 the model was given 3 samples instead of 4"));
  updates.candidate_inputs.pop_back();
  EXPECT_THAT(details(), HasSubstr("the model was given 2 batches in 3 steps"));
}

// A job that has learned all it can, or has come to NaN, says nothing about updates, but still about samples.
TEST(Checks, ReachedWeightsThatDoNotMoveShowOnlyWhatTheModelWasGiven) {
  for (const bool is_exact : {true, false}) {
    UpdateComparison still = with_inputs();
    for (auto& parameter : still.parameters)
      parameter.reference_norm = 0.0;
    const CheckRecord check = check_reached(still, is_exact);
    EXPECT_TRUE(check.passed);
    EXPECT_THAT(check.detail, HasSubstr("the reference moves no parameter"));
    EXPECT_EQ(check.risk, is_exact ? "exact" : "numerics");
    UpdateComparison lost = with_inputs();
    lost.finite = false;
    lost.reference_losses.back() = std::nan("");
    EXPECT_TRUE(check_reached(lost, is_exact).passed);
    for (UpdateComparison* updates : {&still, &lost}) {
      updates->candidate_inputs[1].labels = "others";
      EXPECT_THAT(check_reached(*updates, is_exact).detail, HasSubstr("the labels of step 2"));
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

}  // namespace
}  // namespace autotuned::tuner
