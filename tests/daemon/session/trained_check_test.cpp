// SPDX-License-Identifier: Apache-2.0
// When the check after a training is made, and what is kept of it.
#include "daemon/session/trained_check.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "daemon/report/training_fallback.hpp"
#include "tests/tuner/simulation.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class TrainedCheck : public testing::Test {
 protected:
  TrainedCheck() {
    run_.starting = input_.starting;
    run_.best = input_.starting;
    run_.best.set("precision.autocast", std::string("bf16"));
    run_.speedup.ratio = 2.0;
    // A millisecond a step.
    run_.training = {{"steps", 1000}, {"duration_ns", 1'000'000'000}};
  }
  void turn_extension_on() {
    recipes::Knob knob = recipes::find_knob(input_.knobs, "loader.workers").value();
    knob.name = "mine.way";
    input_.knobs.push_back(knob);
    input_.extension_knobs.emplace_back("mine.way");
    input_.starting.set("mine.way", std::int64_t{0});
    run_.starting = input_.starting;
    run_.best.set("mine.way", std::int64_t{1});
  }
  Json check() { return check_training(run_, input_, job_, std::chrono::seconds(2)); }

  tuner::FakeClock clock_;
  tuner::SimulatedBackend job_{clock_};
  tuner::SessionInput input_ = tuner::simulated_input();
  storage::RunRow run_;
};

TEST_F(TrainedCheck, KeepsThatItPassed) {
  const Json told = check();
  EXPECT_EQ(told.at("passed"), true);
  EXPECT_EQ(told.at("risk"), "numerics");
  EXPECT_FALSE(told.contains("refused"));
  EXPECT_THAT(job_.looks, testing::ElementsAre(tuner::CheckedSteps::reached));
}

TEST_F(TrainedCheck, NamesWhatIsToBlame) {
  job_.updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
    tuner::UpdateComparison updates = tuner::SimulatedBackend::equal(steps);
    updates.parameters[0].norm_ratio = 0.0;
    return updates;
  };
  run_.best.set("loader.workers", std::int64_t{2});
  const Json told = check();
  EXPECT_EQ(told.at("passed"), false);
  EXPECT_EQ(told.at("refused"), Json::object({{"precision.autocast", "bf16"}}));
  EXPECT_EQ(told.at("parameters"), Json::array({"weight"}));
  EXPECT_THAT(told.at("detail").get<std::string>(), HasSubstr("from the trained weights"));
}

TEST_F(TrainedCheck, IsNotMadeOfWhatTrainsAsTheStart) {
  run_.best = input_.starting;
  EXPECT_TRUE(check().is_null());
  run_.best.set("batch_size", std::int64_t{64});
  EXPECT_TRUE(check().is_null()) << "another job by design";
  EXPECT_THAT(job_.looks, IsEmpty());
}

TEST_F(TrainedCheck, SaysThatItCannotTellOfStepsWithAnExtensionThatWasFoundOut) {
  turn_extension_on();
  Error error{ErrorKind::internal, "plugin mine: it cheats", "training step", ""};
  error.extensions = {"mine"};
  error.extension_fault = ExtensionFault::trained_otherwise;
  add_fallback(input_.starting, error, 7, run_, 500);
  run_.best = input_.starting;  // what it went on with
  const Json told = check();
  ASSERT_TRUE(told.is_object());
  EXPECT_TRUE(told.at("passed").is_null());
  EXPECT_THAT(told.at("detail").get<std::string>(),
              HasSubstr("whether the steps up to 500, with plugin mine, were right"));
  EXPECT_THAT(job_.looks, IsEmpty());
}

TEST_F(TrainedCheck, IsNotMadeWhereItTakesTooLong) {
  // Two seconds a step: eight of them, and eight of the starting configuration at half the rate.
  run_.training = {{"steps", 100}, {"duration_ns", 200'000'000'000}};
  Json told = check();
  EXPECT_TRUE(told.at("passed").is_null());
  EXPECT_THAT(told.at("detail").get<std::string>(), HasSubstr("it would take 48.0 s"));
  EXPECT_THAT(job_.looks, IsEmpty());
  // A hundredth of a training of hours.
  run_.training = {{"steps", 10'000}, {"duration_ns", 20'000'000'000'000}};
  EXPECT_EQ(check().at("passed"), true);
}

TEST_F(TrainedCheck, CountsTheStartOfAnotherTrainer) {
  job_.restart_knobs = {"precision.autocast"};
  EXPECT_TRUE(check_training(run_, input_, job_, std::chrono::seconds(20)).at("passed").is_null());
  job_.restart_knobs = {};
  EXPECT_EQ(check_training(run_, input_, job_, std::chrono::seconds(20)).at("passed"), true);
}

TEST_F(TrainedCheck, ThatCannotBeMadeSaysWhy) {
  job_.fault = [](const Configuration&) {
    return Error{.kind = ErrorKind::cancelled, .what = "asked to stop"};
  };
  const Json told = check();
  EXPECT_TRUE(told.at("passed").is_null());
  EXPECT_THAT(told.at("detail").get<std::string>(), HasSubstr("asked to stop"));
  EXPECT_FALSE(told.contains("refused"));
}

// By an exception, or in another way: only what an extension cannot cause leaves the question open.
TEST_F(TrainedCheck, ThatAnExtensionEndsHasFailed) {
  turn_extension_on();
  for (const auto& [kind, has_failed] :
       {std::pair{ErrorKind::internal, true}, std::pair{ErrorKind::crashed, true},
        std::pair{ErrorKind::timeout, true}, std::pair{ErrorKind::cancelled, false},
        std::pair{ErrorKind::out_of_memory, false}}) {
    job_.fault = [kind = kind](const Configuration&) {
      return Error{.kind = kind, .what = "ended"};
    };
    const Json told = check();
    EXPECT_EQ(told.at("passed") == false, has_failed) << to_string(kind);
    EXPECT_EQ(told.contains("refused"), has_failed);
    EXPECT_THAT(told.at("detail").get<std::string>(), HasSubstr("ended"));
    if (has_failed) {
      EXPECT_EQ(told.at("refused"), Json::object({{"mine.way", 1}}));
    }
  }
}

TEST_F(TrainedCheck, ThatAnExtensionEndsForLackOfMemoryHasFailed) {
  turn_extension_on();
  job_.fault = [](const Configuration&) {
    return Error{.kind = ErrorKind::out_of_memory, .what = "ended", .extensions = {"mine"}};
  };
  const Json told = check();
  EXPECT_EQ(told.at("passed"), false);
  EXPECT_EQ(told.at("refused"), Json::object({{"mine.way", 1}}));
}

TEST_F(TrainedCheck, DoesNotBlameAnExtensionForTheReference) {
  turn_extension_on();
  for (const ErrorKind kind : {ErrorKind::internal, ErrorKind::crashed, ErrorKind::timeout}) {
    job_.fault = [kind](const Configuration&) {
      return Error{.kind = kind, .what = "ended", .is_of_reference = true};
    };
    const Json told = check();
    EXPECT_TRUE(told.at("passed").is_null()) << to_string(kind);
    EXPECT_FALSE(told.contains("refused"));
    EXPECT_THAT(told.at("detail").get<std::string>(), HasSubstr("ended"));
  }
}

// The limits of numerics are those of the reference, compared with itself.
TEST_F(TrainedCheck, DoesNotBlameAnExtensionForTheReferenceAlone) {
  turn_extension_on();
  job_.updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
    tuner::UpdateComparison updates = tuner::SimulatedBackend::equal(steps);
    updates.parameters[0].norm_ratio = 0.0;
    return updates;
  };
  job_.rounded_fault = Error{.kind = ErrorKind::crashed, .what = "ended"};
  const Json told = check();
  EXPECT_TRUE(told.at("passed").is_null());
  EXPECT_FALSE(told.contains("refused"));
}

// On a device that does not repeat itself, the reference runs once more.
TEST_F(TrainedCheck, DoesNotBlameAnExtensionForTheReferencesOwnRepetition) {
  turn_extension_on();
  input_.recipe.tune.allow = {};
  input_.job_facts["device"] = "cuda:0";
  run_.best = input_.starting;
  run_.best.set("mine.way", std::int64_t{1});
  job_.updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
    tuner::UpdateComparison updates = tuner::SimulatedBackend::equal(steps);
    updates.parameters[0].norm_ratio = 0.0;
    updates.equal = false;
    return updates;
  };
  job_.fault = [this](const Configuration& candidate) -> std::optional<Error> {
    if (candidate != input_.starting) return std::nullopt;
    return Error{.kind = ErrorKind::crashed, .what = "ended"};
  };
  const Json told = check();
  EXPECT_TRUE(told.at("passed").is_null());
  EXPECT_FALSE(told.contains("refused"));
  EXPECT_EQ(job_.looks.size(), 1U) << "of both";
}

}  // namespace
}  // namespace autotuned::daemon
