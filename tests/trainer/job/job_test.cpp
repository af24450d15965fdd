// SPDX-License-Identifier: Apache-2.0
// Steps, blocks and live switching.
#include "trainer/job/job.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::string digest_after(Job& job, std::int64_t steps) {
  value_of(job.run_steps(steps, never));
  return value_of(job.digest());
}

// Parameters after `steps` steps from the initial state under `configuration`.
std::string digest_under(Job& job, const Configuration& configuration, std::int64_t steps) {
  value_of(job.prepare(configuration));
  EXPECT_TRUE(job.restore("initial"));
  return digest_after(job, steps);
}

TEST(Job, TellsWhatItLoaded) {
  const auto job = load(small_recipe());
  const JobFacts& facts = job->facts();
  EXPECT_EQ(facts.parameters, 64 * 16 + 16 + 16 * 4 + 4);
  EXPECT_EQ(facts.parameter_bytes, facts.parameters * 4);
  EXPECT_FALSE(facts.has_filters);
  EXPECT_TRUE(load(small_cnn_recipe())->facts().has_filters);
  EXPECT_EQ(facts.train_samples, 200);
  EXPECT_EQ(facts.test_samples, 50);
  EXPECT_THAT(facts.sample_shape, ElementsAre(1, 8, 8));
  EXPECT_EQ(facts.classes, 4);
  EXPECT_EQ(facts.device, "cpu");
}

TEST(Job, TwoWithTheSameSeedTrainTheSame) {
  const auto one = load(small_cnn_recipe());
  const auto two = load(small_cnn_recipe());
  EXPECT_EQ(value_of(one->digest()), value_of(two->digest()));
  EXPECT_EQ(digest_after(*one, 15), digest_after(*two, 15));
}

TEST(Job, AnotherSeedTrainsAnotherModel) {
  recipes::Recipe other = small_recipe();
  other.seed = 8;
  const auto one = load(small_recipe());
  const auto two = load(other);
  EXPECT_NE(value_of(one->digest()), value_of(two->digest()));
}

TEST(Job, LearnsItsData) {
  const auto job = load(small_recipe());
  const double before = value_of(job->evaluate(never)).loss;
  const Block block = value_of(job->run_steps(60, never));
  ASSERT_THAT(block.losses, SizeIs(60));
  const TestResult after = value_of(job->evaluate(never));
  EXPECT_LT(after.loss, before / 2);
  EXPECT_GT(after.accuracy, 0.8);
  EXPECT_EQ(after.samples, 50);
}

// The knobs that claim to train bit for bit the same.
TEST(Job, ExactKnobsTrainTheSameBits) {
  const recipes::Recipe recipe = small_cnn_recipe();
  const auto job = load(recipe);
  const Configuration start = starting(recipe);
  const std::string expected = digest_under(*job, start, 25);  // over two ends of an epoch
  EXPECT_EQ(digest_under(*job, with(start, "loader.workers", std::int64_t{2}), 25), expected);
  EXPECT_EQ(digest_under(*job, with(start, "transfer.dtype", "uint8"), 25), expected);
  EXPECT_EQ(digest_under(*job, with(start, "optimizer.set_to_none", false), 25), expected);
  EXPECT_EQ(digest_under(*job, with(start, "train.loss_reading", "every_step"), 25), expected);
  EXPECT_EQ(digest_under(*job, with(start, "input.read_ahead", std::int64_t{8}), 25), expected);
  Configuration all = with(start, "loader.workers", std::int64_t{1});
  all.set("input.read_ahead", std::int64_t{3});
  all.set("loader.prefetch_batches", std::int64_t{4});
  all.set("loader.affinity", std::string("apart"));
  all.set("transfer.dtype", "uint8");
  all.set("optimizer.set_to_none", false);
  EXPECT_EQ(digest_under(*job, all, 25), expected);
  EXPECT_NE(digest_under(*job, start, 24), expected);  // the comparison can fail
}

// The transforms run in other ways and give the same; test data alike.
TEST(Job, FormsOfTheInputTrainTheSameBits) {
  recipes::Recipe recipe = small_recipe();
  recipe.input = {{"scale", {{"by", 1.0 / 255}}},
                  {"random_crop", {{"size", {3, 4}}}},
                  {"random_mask", {{"ratio", 0.1}, {"dilate", "4-neighbour"}}},
                  {"scale", {{"by", 2.0}}}};
  const auto job = load(recipe);
  EXPECT_TRUE(job->facts().can_move_crop);
  EXPECT_FALSE(job->facts().can_decode_crop);
  EXPECT_EQ(job->facts().pixel_stages, 2);
  EXPECT_TRUE(job->facts().dilates);
  const Configuration start = starting(recipe);
  const std::string expected = digest_under(*job, start, 25);
  const double test_loss = value_of(job->evaluate(never)).loss;
  for (const char* order : {"written", "crop_first"}) {
    for (const char* point_ops : {"per_sample", "fused", "per_batch"}) {
      Configuration other = with(start, "input.order", order);
      other.set("input.point_ops", point_ops);
      EXPECT_EQ(digest_under(*job, other, 25), expected) << order << " " << point_ops;
      other.set("loader.workers", std::int64_t{2});
      EXPECT_EQ(digest_under(*job, other, 25), expected) << order << " " << point_ops;
      EXPECT_EQ(value_of(job->evaluate(never)).loss, test_loss);
    }
  }
  for (const char* dilation : {"shifts", "bits"})
    EXPECT_EQ(digest_under(*job, with(start, "input.dilation", dilation), 25), expected);
  EXPECT_NE(digest_under(*job, start, 24), expected);  // the comparison can fail
}

TEST(Job, SelectsRowsInsteadOfGatherWithTheSameBits) {
  const recipes::Recipe recipe = patch_dropout_recipe();
  const auto job = load(recipe);
  const Configuration start = starting(recipe);
  const Configuration indexing = with(start, "rewrite.gather", "indexing");
  const std::string expected = digest_under(*job, start, 25);
  EXPECT_EQ(digest_under(*job, indexing, 25), expected);
  EXPECT_EQ(digest_under(*job, start, 25), expected);
  EXPECT_NE(digest_under(*job, indexing, 24), expected);  // the comparison can fail
}

// As long as the time between two checkpoints, a block is a piece of the training like any other.
TEST(Job, ABlockCanHoldACheckpoint) {
  const Folder folder;
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe);
  const std::string expected = digest_after(*job, 5);
  for (const bool is_async : {false, true}) {
    value_of(job->prepare(with(starting(recipe), "checkpoint.async", is_async)));
    ASSERT_TRUE(job->restore("initial"));
    const Block block =
        value_of(job->run({.minimum_steps = 5, .checkpoint_file = folder / "c"}, never));
    EXPECT_EQ(block.steps, 5);
    EXPECT_EQ(value_of(job->digest()), expected);
    EXPECT_FALSE(job->is_exporting());
    EXPECT_FALSE(std::filesystem::exists(folder / "c"));
    const auto failed =
        job->run({.minimum_steps = 5, .checkpoint_file = folder / "missing" / "c"}, never);
    ASSERT_FALSE(failed) << "it is written";
    EXPECT_EQ(failed.error().kind, ErrorKind::not_found);
    EXPECT_FALSE(job->is_exporting());
  }
}

TEST(Job, SwitchingInTheMiddleKeepsTheSequenceOfSamples) {
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe);
  const Configuration start = starting(recipe);
  const std::string expected = digest_under(*job, start, 23);

  EXPECT_TRUE(job->restore("initial"));
  value_of(job->run_steps(5, never));
  value_of(job->prepare(with(start, "loader.workers", std::int64_t{2})));
  value_of(job->run_steps(8, never));
  value_of(job->prepare(with(start, "transfer.dtype", "uint8")));
  EXPECT_EQ(digest_after(*job, 10), expected);
}

TEST(Job, SwitchingTheMemoryFormatBackAndForthChangesNothing) {
  const recipes::Recipe recipe = small_cnn_recipe();
  const auto job = load(recipe);
  const Configuration start = starting(recipe);
  const std::string expected = digest_under(*job, start, 20);

  EXPECT_TRUE(job->restore("initial"));
  value_of(job->run_steps(10, never));
  const std::string before = value_of(job->digest());
  value_of(job->prepare(with(start, "layout.memory_format", "channels_last")));
  EXPECT_EQ(value_of(job->digest()), before);
  value_of(job->prepare(start));
  EXPECT_EQ(digest_after(*job, 10), expected);
}

TEST(Job, SwitchingTheOptimizerToFusedAndBackKeepsItsState) {
  for (const char* type : {"sgd", "adam", "adamw"}) {
    recipes::Recipe recipe = small_cnn_recipe();
    if (std::string(type) != "sgd") {
      recipe.optimizer = {
          type, {{"lr", 1e-3}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}}};
    }
    const auto job = load(recipe);
    const Configuration start = starting(recipe);
    const std::string expected = digest_under(*job, start, 10);
    const std::string fused = digest_under(*job, with(start, "optimizer.fused", true), 10);
    EXPECT_NE(fused, expected) << "another order of rounding";
    EXPECT_EQ(digest_under(*job, start, 10), expected);

    // No step in between: nothing changes.
    EXPECT_TRUE(job->restore("initial"));
    value_of(job->run_steps(5, never));
    value_of(job->prepare(with(start, "optimizer.fused", true)));
    value_of(job->prepare(start));
    EXPECT_EQ(digest_after(*job, 5), expected);
  }
}

TEST(Job, NumericsKnobsTrainNearlyTheSame) {
  const recipes::Recipe recipe = small_cnn_recipe();
  const auto job = load(recipe);
  const Configuration start = starting(recipe);
  digest_under(*job, start, 5);
  value_of(job->keep("reference"));
  for (const auto& [knob, value] :
       {std::pair<std::string, KnobValue>{"layout.memory_format", "channels_last"},
        {"precision.autocast", "bf16"},
        {"precision.autocast", "fp16"},
        {"optimizer.fused", true},
        {"threads.intra_op", std::int64_t{1}}}) {
    SCOPED_TRACE(knob + " " + to_text(value));
    digest_under(*job, with(start, knob, value), 5);
    value_of(job->keep("candidate"));
    const Comparison comparison = value_of(job->compare("initial", "reference", "candidate"));
    EXPECT_TRUE(comparison.is_finite);
    ASSERT_THAT(comparison.parameters, SizeIs(6));
    for (const ParameterComparison& one : comparison.parameters) {
      EXPECT_GT(one.cosine, 0.9) << one.name;
      EXPECT_NEAR(one.norm_ratio, 1.0, 0.1) << one.name;
    }
  }
}

TEST(Job, LearningRateFollowsTheBatchSize) {
  recipes::Recipe recipe = small_recipe();
  recipe.tune.lr_scaling = recipes::LearningRateScaling::linear;
  recipe.optimizer.parameters["momentum"] = 0.0;
  const auto job = load(recipe);
  const Configuration start = starting(recipe);
  const auto norm_at = [&](const std::string& scaling_batch, std::int64_t batch_size) {
    value_of(job->prepare(with(start, "batch_size", batch_size)));
    EXPECT_TRUE(job->restore("initial"));
    value_of(job->run_steps(1, never));
    value_of(job->keep(scaling_batch));
    return value_of(job->compare("initial", "initial", scaling_batch))
        .parameters.front()
        .candidate_norm;
  };
  // One step over the whole data set, whose gradient is a mean: twice the rate, twice the update.
  const double at_base = norm_at("a", 200);
  recipes::Recipe doubled = recipe;
  doubled.optimizer.parameters["lr"] = 0.1;
  const auto other = load(doubled, with(start, "batch_size", std::int64_t{200}));
  value_of(other->run_steps(1, never));
  value_of(other->keep("b"));
  const double at_double =
      value_of(other->compare("initial", "initial", "b")).parameters.front().candidate_norm;
  EXPECT_NEAR(at_double / at_base, 2.0, 1e-4);
  EXPECT_EQ(recipe.learning_rate_at(200), 0.5);
}

TEST(Job, BlocksCountWhatTheyDid) {
  const auto job = load(small_recipe());
  const Block block = value_of(job->run({.minimum_steps = 7, .warmup_steps = 3}, never));
  EXPECT_GE(block.steps, 7);
  EXPECT_EQ(block.samples, block.steps * 20);
  EXPECT_EQ(job->steps(), block.steps + 3);
  EXPECT_GT(block.duration_ns, 0);
  EXPECT_GT(block.cpu_ns, 0);
  EXPECT_GT(block.data_wait_ns, 0);
  EXPECT_LE(block.data_wait_ns, block.duration_ns);
  EXPECT_GT(block.peak_host_memory_bytes, 1'000'000);
  EXPECT_EQ(block.peak_device_memory_bytes, 0);
  EXPECT_TRUE(std::isfinite(block.first_loss));
  EXPECT_NE(block.first_loss, block.last_loss);
  EXPECT_THAT(block.losses, IsEmpty());
}

TEST(Job, ABlockLastsItsMinimum) {
  recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe, with(starting(recipe), "loader.workers", std::int64_t{2}));
  const Block block = value_of(job->run({.minimum_ns = 20'000'000}, never));
  EXPECT_GE(block.duration_ns, 20'000'000);
  EXPECT_GE(block.steps, 1);
}

TEST(Job, ReusingABatchNeedsNoLoader) {
  const auto job = load(small_recipe());
  const Block block = value_of(
      job->run({.minimum_steps = 50, .warmup_steps = 2, .reuse = Reuse::device_batch}, never));
  EXPECT_EQ(block.data_wait_ns, 0);
  EXPECT_EQ(block.samples, block.steps * 20);
  // The next block loads again.
  EXPECT_GT(value_of(job->run({.minimum_steps = 2}, never)).data_wait_ns, 0);
}

TEST(Job, EveryRungOfTheCeilingTrains) {
  const recipes::Recipe recipe = small_recipe();
  Configuration bytes = with(starting(recipe), "transfer.dtype", "uint8");
  bytes.set("loader.workers", std::int64_t{1});
  const auto job = load(recipe, bytes);
  ASSERT_NE(job, nullptr);
  for (const char* name : {"raw_bytes", "made_samples", "host_batch", "device_batch"}) {
    const Block block =
        value_of(job->run({.minimum_steps = 30, .reuse = *reuse_from(name)}, never));
    EXPECT_GE(block.steps, 30) << name;
    EXPECT_EQ(block.samples, block.steps * 20) << name;
    EXPECT_TRUE(std::isfinite(block.last_loss)) << name;
    EXPECT_GT(value_of(job->run({.minimum_steps = 2}, never)).samples, 0) << name;
  }
  // Nothing of that stays.
  ASSERT_TRUE(job->restore("initial"));
  EXPECT_EQ(digest_after(*job, 12), digest_after(*load(recipe), 12));
}

TEST(Job, ARungThatIsAnotherIsUnsupported) {
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe, with(starting(recipe), "input.cache", "raw"));
  ASSERT_NE(job, nullptr);
  const auto kind_of = [&](Reuse reuse) {
    const auto block = job->run({.reuse = reuse}, never);
    return block ? "measured" : std::string(to_string(block.error().kind));
  };
  EXPECT_EQ(kind_of(Reuse::raw_bytes), "unsupported");   // read already
  EXPECT_EQ(kind_of(Reuse::host_batch), "unsupported");  // used where it is
  EXPECT_EQ(kind_of(Reuse::made_samples), "measured");
  EXPECT_EQ(kind_of(Reuse::nothing), "measured");
}

TEST(Job, RefusesConfigurationsOutsideOfTheKnobs) {
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe);
  const Configuration start = starting(recipe);
  const auto kind_of = [&](const Configuration& configuration) {
    const auto prepared = job->prepare(configuration);
    return prepared ? "accepted" : std::string(to_string(prepared.error().kind));
  };
  EXPECT_EQ(kind_of(with(start, "loader.workers", std::int64_t{99})), "invalid");
  EXPECT_EQ(kind_of(with(start, "loader.wrokers", std::int64_t{1})), "invalid");
  EXPECT_EQ(kind_of(with(start, "loader.pin_memory", true)), "unsupported");
  EXPECT_EQ(kind_of(with(start, "memory.malloc", "keep")), "invalid");
  EXPECT_EQ(kind_of(with(start, "env.OMP_SCHEDULE", "static")), "invalid");
  EXPECT_EQ(kind_of(with(start, "batch_size", std::int64_t{201})),
            "invalid");  // more than there is
  EXPECT_EQ(kind_of(Configuration{}), "invalid");
  EXPECT_EQ(kind_of(with(start, "env.OMP_SCHEDULE", "")), "accepted");  // as good as not named
  EXPECT_EQ(kind_of(start), "accepted");
  // Nothing of that stuck.
  EXPECT_EQ(job->configuration(), start);
  const auto fresh = load(recipe);
  EXPECT_EQ(digest_after(*job, 5), digest_after(*fresh, 5));
}

TEST(Job, PrepareNamesWhatChanged) {
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe);
  Configuration next = with(starting(recipe), "loader.workers", std::int64_t{1});
  next.set("optimizer.set_to_none", false);
  EXPECT_THAT(value_of(job->prepare(next)).changed,
              ElementsAre("loader.workers", "optimizer.set_to_none"));
  EXPECT_THAT(value_of(job->prepare(next)).changed, IsEmpty());
}

TEST(JobAndProcess, EnvironmentVariablesMustBeThereAtTheStart) {
  const recipes::Recipe recipe = small_recipe();
  const Configuration wanted = with(starting(recipe), "env.PLACEBO_TEST_VARIABLE", "7");
  unsetenv("PLACEBO_TEST_VARIABLE");
  const auto refused = Job::load(recipe, wanted, test_machine(), cpu_only());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "env.PLACEBO_TEST_VARIABLE");
  setenv("PLACEBO_TEST_VARIABLE", "7", 1);
  EXPECT_NE(load(recipe, wanted), nullptr);
  unsetenv("PLACEBO_TEST_VARIABLE");
}

TEST(Job, CancelEndsABlock) {
  const auto job = load(small_recipe());
  int asked = 0;
  const auto block =
      job->run({.minimum_ns = std::int64_t{3'600'000'000'000}}, [&asked] { return ++asked == 3; });
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(job->run({.minimum_steps = 2}, never));
}

TEST(Job, RefusesModelsThatDoNotFitTheData) {
  recipes::Recipe few = small_recipe();
  few.model.parameters["classes"] = 3;
  EXPECT_EQ(Job::load(few, starting(few), test_machine(), cpu_only()).error().kind,
            ErrorKind::invalid);
  recipes::Recipe tiny = small_cnn_recipe();
  tiny.data.parameters["shape"] = {1, 2, 2};
  tiny.evaluation->data.parameters["shape"] = {1, 2, 2};
  tiny.input.pop_back();
  EXPECT_EQ(Job::load(tiny, starting(tiny), test_machine(), cpu_only()).error().kind,
            ErrorKind::invalid);
  recipes::Recipe unknown = small_recipe();
  unknown.model.type = "perceptron";
  EXPECT_EQ(Job::load(unknown, starting(unknown), test_machine(), cpu_only()).error().kind,
            ErrorKind::unsupported);
  recipes::Recipe cuda = small_recipe();
  cuda.device = "cuda";
  EXPECT_EQ(Job::load(cuda, starting(cuda), test_machine(), cpu_only()).error().kind,
            ErrorKind::unsupported);
}

// Caps the address space a little above what is in use, for as long as it lives.
class LittleMemory {
 public:
  explicit LittleMemory(std::uint64_t more_bytes) {
    getrlimit(RLIMIT_AS, &before_);
    std::ifstream file("/proc/self/statm");
    std::uint64_t pages = 0;
    file >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + more_bytes;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~LittleMemory() { setrlimit(RLIMIT_AS, &before_); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  rlimit before_{};
};

TEST(JobAndProcess, OutOfMemoryLeavesAUsableJob) {
  recipes::Recipe recipe = small_cnn_recipe();
  recipe.data.parameters["samples"] = 40'000;
  const Configuration start = starting(recipe);
  const auto job = load(recipe);
  value_of(job->run_steps(2, never));
  value_of(job->prepare(with(start, "batch_size", std::int64_t{40'000})));
  {
    const LittleMemory limit(64U << 20U);  // the first activation alone takes 700 MiB
    const auto block = job->run_steps(1, never);
    ASSERT_FALSE(block);
    EXPECT_EQ(block.error().kind, ErrorKind::out_of_memory) << block.error().message();
    const auto bigger_ring = job->prepare(
        with(with(start, "batch_size", std::int64_t{40'000}), "loader.workers", std::int64_t{2}));
    ASSERT_FALSE(bigger_ring);
    EXPECT_EQ(bigger_ring.error().kind, ErrorKind::out_of_memory);
  }
  value_of(job->prepare(start));
  ASSERT_TRUE(job->restore("initial"));
  const auto fresh = load(recipe);
  EXPECT_EQ(digest_after(*job, 3), digest_after(*fresh, 3));
}

}  // namespace
}  // namespace autotuned::trainer
