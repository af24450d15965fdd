// SPDX-License-Identifier: Apache-2.0
// Keeping, restoring, comparing and exchanging states of training.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {
namespace {

std::string digest_at(Job& job, std::int64_t steps) {
  value_of(job.run_steps(steps, never));
  return value_of(job.digest());
}

recipes::Recipe adam_recipe() {
  recipes::Recipe recipe = small_recipe();
  recipe.optimizer = {
      "adam", {{"lr", 0.01}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.01}}};
  return recipe;
}

TEST(Checkpoint, RestoringGoesOnAsIfNothingHadBeen) {
  for (const recipes::Recipe& recipe : {small_recipe(), adam_recipe()}) {
    const auto job = load(recipe);
    value_of(job->run_steps(13, never));
    EXPECT_GT(value_of(job->keep("middle")), 0);
    const std::string middle = value_of(job->digest());
    const std::string end = digest_at(*job, 12);
    EXPECT_EQ(job->steps(), 25);

    ASSERT_TRUE(job->restore("middle"));
    EXPECT_EQ(job->steps(), 13);
    EXPECT_EQ(job->samples(), 13 * 20);
    EXPECT_EQ(value_of(job->digest()), middle);
    EXPECT_EQ(digest_at(*job, 12), end);
  }
}

TEST(Checkpoint, TheInitialStateIsAlwaysThere) {
  const auto job = load(small_recipe());
  const std::string start = value_of(job->digest());
  const std::string after = digest_at(*job, 4);
  EXPECT_NE(after, start);
  ASSERT_TRUE(job->restore("initial"));
  EXPECT_EQ(value_of(job->digest()), start);
  EXPECT_EQ(digest_at(*job, 4), after);
  EXPECT_FALSE(job->drop("initial"));
}

TEST(Checkpoint, NamesMustExist) {
  const auto job = load(small_recipe());
  EXPECT_EQ(job->restore("nothing").error().kind, ErrorKind::not_found);
  EXPECT_EQ(job->drop("nothing").error().kind, ErrorKind::not_found);
  EXPECT_EQ(job->compare("initial", "initial", "nothing").error().kind, ErrorKind::not_found);
  value_of(job->keep("a"));
  EXPECT_TRUE(job->drop("a"));
  EXPECT_EQ(job->restore("a").error().kind, ErrorKind::not_found);
}

TEST(Checkpoint, ATrainerGoesOnFromTheFileOfAnother) {
  const Folder folder;
  const recipes::Recipe recipe = adam_recipe();
  const auto one = load(recipe);
  value_of(one->run_steps(7, never));
  value_of(one->keep("middle"));
  EXPECT_GT(value_of(one->export_to(folder / "middle", "middle", "a note")), 0);

  const auto two = load(recipe, with(starting(recipe), "loader.workers", std::int64_t{1}));
  EXPECT_EQ(value_of(two->import_from(folder / "middle", "theirs")), "a note");
  ASSERT_TRUE(two->restore("theirs"));
  EXPECT_EQ(two->steps(), 7);
  EXPECT_EQ(value_of(two->digest()), value_of(one->digest()));
  EXPECT_EQ(digest_at(*two, 9), digest_at(*one, 9));
}

TEST(Checkpoint, RefusesFilesThatAreNone) {
  const Folder folder;
  const auto job = load(small_recipe());
  EXPECT_EQ(job->import_from(folder / "missing", "x").error().kind, ErrorKind::not_found);
  ASSERT_TRUE(write_file_atomically(folder / "text", "no checkpoint at all"));
  EXPECT_EQ(job->import_from(folder / "text", "x").error().kind, ErrorKind::corrupt);
  ASSERT_TRUE(write_file_atomically(folder / "empty", ""));
  EXPECT_EQ(job->import_from(folder / "empty", "x").error().kind, ErrorKind::corrupt);

  value_of(job->export_to(folder / "whole", "initial", ""));
  const std::string whole = value_of(read_file(folder / "whole", 1U << 20U));
  for (const std::size_t length : {whole.size() / 2, whole.size() - 100}) {
    ASSERT_TRUE(write_file_atomically(folder / "cut", whole.substr(0, length)));
    EXPECT_EQ(job->import_from(folder / "cut", "x").error().kind, ErrorKind::corrupt) << length;
  }
  // A saved model is such an archive, too, but no checkpoint.
  value_of(job->save_model(folder / "model"));
  EXPECT_EQ(job->import_from(folder / "model", "x").error().kind, ErrorKind::corrupt);
}

TEST(Checkpoint, RefusesThatOfAnotherModel) {
  const Folder folder;
  const auto one = load(small_recipe());
  const auto two = load(small_cnn_recipe());
  value_of(one->export_to(folder / "file", "initial", ""));
  value_of(two->import_from(folder / "file", "theirs"));
  const std::string before = value_of(two->digest());
  EXPECT_EQ(two->restore("theirs").error().kind, ErrorKind::invalid);
  EXPECT_EQ(two->compare("initial", "initial", "theirs").error().kind, ErrorKind::invalid);
  EXPECT_EQ(value_of(two->digest()), before);
}

TEST(Checkpoint, ComparesUpdates) {
  const auto job = load(small_recipe());
  value_of(job->run_steps(1, never));
  value_of(job->keep("one"));
  value_of(job->run_steps(4, never));
  value_of(job->keep("five"));

  const Comparison same = value_of(job->compare("initial", "five", "five"));
  EXPECT_TRUE(same.is_equal);
  EXPECT_TRUE(same.is_finite);
  ASSERT_EQ(same.parameters.size(), 4U);
  EXPECT_EQ(same.parameters[0].name, "hidden.weight");
  for (const ParameterComparison& one : same.parameters) {
    EXPECT_GT(one.reference_norm, 0.0);
    EXPECT_DOUBLE_EQ(one.norm_ratio, 1.0);
    EXPECT_NEAR(one.cosine, 1.0, 1e-9);
  }

  const Comparison different = value_of(job->compare("initial", "five", "one"));
  EXPECT_FALSE(different.is_equal);
  EXPECT_LT(different.parameters[0].norm_ratio, 0.8);

  const Comparison still = value_of(job->compare("initial", "five", "initial"));
  EXPECT_EQ(still.parameters[0].candidate_norm, 0.0);
  EXPECT_EQ(still.parameters[0].norm_ratio, 0.0);
  EXPECT_EQ(still.parameters[0].cosine, 0.0);

  const Comparison neither = value_of(job->compare("one", "one", "one"));
  EXPECT_EQ(neither.parameters[0].norm_ratio, 1.0);
  EXPECT_EQ(neither.parameters[0].cosine, 1.0);
}

TEST(Checkpoint, RoundsParametersAndComparesFromThere) {
  const auto job = load(small_recipe());
  const auto from_rounded = [&](std::int64_t steps, const char* base) {
    EXPECT_TRUE(job->restore("rounded"));
    if (steps > 0) value_of(job->run_steps(steps, never));
    value_of(job->keep("candidate"));
    return value_of(job->compare("initial", "reference", "candidate", base)).parameters[0];
  };
  value_of(job->run_steps(1, never));
  value_of(job->keep("reference"));
  EXPECT_EQ(job->round("nothing", "rounded").error().kind, ErrorKind::not_found);
  EXPECT_GT(value_of(job->round("initial", "rounded")), 0);
  // Rounded, by something like a thousandth of itself; which is no update.
  EXPECT_GT(from_rounded(0, "").candidate_norm, 0.0);
  EXPECT_EQ(from_rounded(0, "rounded").candidate_norm, 0.0);
  const ParameterComparison one_step = from_rounded(1, "rounded");
  EXPECT_NEAR(one_step.norm_ratio, 1.0, 0.05);
  EXPECT_GT(one_step.cosine, 0.95);
  EXPECT_LT(one_step.cosine, 1.0);
}

TEST(Checkpoint, RenewsTheOptimizerAlone) {
  const auto job = load(adam_recipe());
  const auto after = [&](const char* start, std::int64_t steps) {
    EXPECT_TRUE(job->restore(start));
    if (steps > 0) value_of(job->run_steps(steps, never));
    return value_of(job->digest());
  };
  value_of(job->run_steps(5, never));
  value_of(job->keep("five"));
  EXPECT_EQ(job->renew("nothing", "renewed").error().kind, ErrorKind::not_found);
  const std::int64_t bytes = value_of(job->renew("five", "renewed"));
  EXPECT_LT(bytes, value_of(job->keep("five")));
  EXPECT_EQ(after("renewed", 0), after("five", 0));
  const std::string renewed = after("renewed", 1);
  EXPECT_NE(renewed, after("five", 1));
  EXPECT_EQ(after("renewed", 1), renewed) << "nothing of the moments is left";
  EXPECT_EQ(job->steps(), 6);
  value_of(job->renew("initial", "begin"));
  EXPECT_EQ(after("begin", 3), after("initial", 3));
}

// What the check of the numerics class must be able to see.
TEST(Checkpoint, AHalvedLearningRateShowsInTheNorms) {
  const auto one = load(small_recipe());
  recipes::Recipe half = small_recipe();
  half.optimizer.parameters["lr"] = 0.025;
  const auto two = load(half);
  const Folder folder;
  value_of(one->run_steps(1, never));
  value_of(one->keep("reference"));
  value_of(two->run_steps(1, never));
  value_of(two->keep("candidate"));
  value_of(two->export_to(folder / "file", "candidate", ""));
  value_of(one->import_from(folder / "file", "candidate"));
  for (const ParameterComparison& parameter :
       value_of(one->compare("initial", "reference", "candidate")).parameters) {
    EXPECT_NEAR(parameter.norm_ratio, 0.5, 1e-3);
    EXPECT_NEAR(parameter.cosine, 1.0, 1e-3);
  }
}

TEST(Checkpoint, SeesWhatIsNotFinite) {
  recipes::Recipe recipe = small_recipe();
  recipe.optimizer.parameters["lr"] = 1e30;
  const auto job = load(recipe);
  const Block block = value_of(job->run_steps(6, never));
  EXPECT_FALSE(std::isfinite(block.losses.back()));
  value_of(job->keep("bad"));
  const Comparison comparison = value_of(job->compare("initial", "bad", "bad"));
  EXPECT_FALSE(comparison.is_finite);
  EXPECT_FALSE(comparison.is_equal);  // NaN equals nothing
}

TEST(Checkpoint, SavingTheModelReplacesTheFile) {
  const Folder folder;
  const auto job = load(small_recipe());
  const std::int64_t bytes = value_of(job->save_model(folder / "model.pt"));
  EXPECT_EQ(bytes, static_cast<std::int64_t>(std::filesystem::file_size(folder / "model.pt")));
  EXPECT_GT(bytes, job->facts().parameter_bytes);
  EXPECT_EQ(job->save_model(folder / "no such folder" / "model.pt").error().kind,
            ErrorKind::not_found);
}

}  // namespace
}  // namespace autotuned::trainer
