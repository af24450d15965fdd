// SPDX-License-Identifier: Apache-2.0
// A job's knobs on a GPU: the exact ones bit for bit, the others through the check of the updates. Skipped
// where there is no GPU.
#include <gmock/gmock.h>

#include "tests/trainer/small_job.hpp"
#include "tests/trainer/updates.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kCheckSteps = 8;

class GpuJob : public testing::Test {
 protected:
  void SetUp() override {
    static const Devices devices = open_devices();
    devices_ = devices;
    if (!devices_.cuda_reason.empty()) GTEST_SKIP() << devices_.cuda_reason;
    machine_.gpus.emplace_back();
  }

  [[nodiscard]] Configuration start_of(const recipes::Recipe& recipe) const {
    return recipe.starting_configuration(recipes::knobs_of(machine_));
  }
  [[nodiscard]] Result<std::unique_ptr<Job>> try_load(recipes::Recipe recipe,
                                                      const Configuration& configuration) const {
    recipe.device = "cuda";
    return Job::load(recipe, configuration, machine_, devices_);
  }
  [[nodiscard]] std::unique_ptr<Job> loaded(const recipes::Recipe& recipe) const {
    return value_of(try_load(recipe, start_of(recipe)));
  }
  static std::string digest_under(Job& job, const Configuration& configuration) {
    value_of(job.prepare(configuration));
    EXPECT_TRUE(job.restore("initial"));
    value_of(job.run_steps(25, never));  // over two ends of an epoch
    return value_of(job.digest());
  }

  Devices devices_;
  Machine machine_ = test_machine();
};

std::vector<Configuration> exact_candidates(const Configuration& start) {
  std::vector<Configuration> all = {
      with(start, "loader.pin_memory", true),
      with(start, "transfer.non_blocking", true),
      with(with(start, "loader.pin_memory", true), "transfer.non_blocking", true),
      with(start, "transfer.dtype", "uint8"),
      with(start, "loader.workers", std::int64_t{2}),
      with(start, "optimizer.set_to_none", false),
      with(start, "train.loss_reading", "every_step"),
  };
  Configuration together = with(all[2], "transfer.dtype", "uint8");
  together.set("loader.workers", std::int64_t{2});
  together.set("loader.prefetch_batches", std::int64_t{4});
  together.set("optimizer.set_to_none", false);
  all.push_back(together);
  return all;
}

TEST_F(GpuJob, ExactKnobsTrainTheSameBits) {
  recipes::Recipe recipe = small_recipe();
  recipe.deterministic = true;
  recipe.data.parameters["shape"] = {3, 8, 8};
  recipe.evaluation->data.parameters["shape"] = {3, 8, 8};
  recipe.input.pop_back();
  recipe.input.push_back({"normalize", {{"mean", {0.5, 0.4, 0.3}}, {"std", {0.25, 0.3, 0.2}}}});
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = start_of(recipe);
  const std::string expected = digest_under(*job, start);
  EXPECT_EQ(digest_under(*job, start), expected) << "it does not even repeat itself";
  for (const Configuration& candidate : exact_candidates(start)) {
    EXPECT_EQ(digest_under(*job, candidate), expected)
        << start.change_to(candidate).canonical_text();
  }
}

// By a table, or by arithmetic on the device: bytes travel.
TEST_F(GpuJob, NumbersMadeBehindTheTransferAreTheSame) {
  recipes::Recipe recipe = small_recipe();
  recipe.deterministic = true;
  recipe.data.parameters["shape"] = {3, 8, 8};
  recipe.evaluation->data.parameters["shape"] = {3, 8, 8};
  recipe.input = {{"rgb_to_yuv", Json::object()}, {"scale", {{"by", "1/255"}}}};
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = start_of(recipe);
  const std::string expected = digest_under(*job, start);
  Configuration device = with(start, "input.point_ops", "device");
  EXPECT_EQ(digest_under(*job, device), expected);
  EXPECT_EQ(value_of(job->profile(2, 0, never)).metrics.at("transfer.bytes_per_step"),
            20 * (3 * 8 * 8 + 8));
  device.set("loader.pin_memory", true);
  device.set("transfer.non_blocking", true);
  device.set("loader.workers", std::int64_t{2});
  EXPECT_EQ(digest_under(*job, device), expected);
}

// A batch that is short, and samples that come while the step before is at work.
TEST_F(GpuJob, CopiesBesideTheStepMindShortBatches) {
  recipes::Recipe recipe = small_recipe();
  recipe.deterministic = true;
  recipe.data.parameters["samples"] = 190;
  recipe.train.drop_last = false;
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = start_of(recipe);
  const std::string expected = digest_under(*job, start);
  for (const Configuration& candidate : exact_candidates(start)) {
    EXPECT_EQ(digest_under(*job, candidate), expected)
        << start.change_to(candidate).canonical_text();
  }
}

TEST_F(GpuJob, NumericsKnobsPassTheCheck) {
  recipes::Recipe adagrad = small_cnn_recipe();
  adagrad.optimizer = {"adagrad",
                       {{"lr", 0.01},
                        {"lr_decay", 0.0},
                        {"eps", 1e-10},
                        {"initial_accumulator_value", 0.1},
                        {"weight_decay", 0.0}}};
  for (const recipes::Recipe& recipe : {small_cnn_recipe(), adagrad}) {
    SCOPED_TRACE(recipe.optimizer.type);
    const auto job = loaded(recipe);
    ASSERT_NE(job, nullptr);
    const Configuration start = start_of(recipe);
    const auto losses_under = [&](const Configuration& configuration, const char* name) {
      value_of(job->prepare(configuration));
      EXPECT_TRUE(job->restore("initial"));
      std::vector<double> losses = value_of(job->run_steps(kCheckSteps, never)).losses;
      value_of(job->keep(name));
      return losses;
    };
    const std::vector<double> reference = losses_under(start, "reference");
    for (const Configuration& candidate :
         {with(start, "precision.autocast", "bf16"), with(start, "precision.autocast", "fp16"),
          with(with(start, "precision.autocast", "bf16"), "precision.keep_float32", "last,loss"),
          with(start, "precision.tf32", true), with(start, "layout.memory_format", "channels_last"),
          with(start, "optimizer.fused", true),
          with(with(start, "cuda.graph", true), "optimizer.fused", true)}) {
      SCOPED_TRACE(start.change_to(candidate).canonical_text());
      const std::vector<double> losses = losses_under(candidate, "candidate");
      const Comparison comparison = value_of(job->compare("initial", "reference", "candidate"));
      const CheckRecord check = tuner::check_numerics(updates_of(comparison, reference, losses));
      EXPECT_TRUE(check.passed) << check.detail;
    }
  }
}

TEST_F(GpuJob, SelectsRowsLikeGather) {
  const recipes::Recipe recipe = patch_dropout_recipe();
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = start_of(recipe);
  const auto losses_under = [&](const Configuration& configuration) {
    value_of(job->prepare(configuration));
    EXPECT_TRUE(job->restore("initial"));
    return value_of(job->run_steps(10, never)).losses;
  };
  const std::vector<double> expected = losses_under(start);
  EXPECT_THAT(losses_under(with(start, "rewrite.gather", "indexing")),
              testing::Pointwise(testing::DoubleNear(1e-3), expected));
}

TEST_F(GpuJob, GoesOnAfterItRanOutOfMemory) {
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["hidden"] = 65'536;
  recipe.data.parameters["samples"] = 524'288;
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = start_of(recipe);
  value_of(job->run_steps(2, never));
  // 128 GiB of activations in the hidden layer alone.
  const auto prepared = job->prepare(with(start, "batch_size", std::int64_t{524'288}));
  const auto large = prepared ? job->run_steps(1, never) : tl::unexpected(prepared.error());
  ASSERT_FALSE(large) << "this GPU has more memory than the test expects";
  EXPECT_EQ(large.error().kind, ErrorKind::out_of_memory) << large.error().message();
  // LibTorch's message was understood.
  EXPECT_THAT(large.error().what, HasSubstr("the GPU has no memory left for another"));
  EXPECT_THAT(large.error().remedy, HasSubstr("smaller batches"));
  value_of(job->prepare(start));
  EXPECT_TRUE(job->restore("initial"));
  value_of(job->run_steps(5, never));
}

TEST_F(GpuJob, TellsItsMemory) {
  const recipes::Recipe recipe = small_cnn_recipe();
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_GT(job->facts().device_memory_bytes, std::int64_t{1} << 30);
  const Block block = value_of(job->run({.minimum_steps = 5}, never));
  EXPECT_GT(block.peak_device_memory_bytes, 0);
  EXPECT_LT(block.peak_device_memory_bytes, job->facts().device_memory_bytes);
  EXPECT_EQ(value_of(job->profile(2, 0, never)).metrics.at("memory.pinned_bytes"), 0.0);
  value_of(job->prepare(with(start_of(recipe), "loader.pin_memory", true)));
  EXPECT_GT(value_of(job->profile(2, 0, never)).metrics.at("memory.pinned_bytes"), 0.0);
}

// What the allocator keeps of a large batch is no need of a small one.
TEST_F(GpuJob, APeakIsOfItsOwnBatch) {
  const recipes::Recipe recipe = small_cnn_recipe();
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = start_of(recipe);
  const auto peak_of = [&](std::int64_t batch) {
    value_of(job->prepare(with(start, "batch_size", batch)));
    value_of(job->run({.minimum_steps = 2}, never));
    return value_of(job->run({.minimum_steps = 2}, never)).peak_device_memory_bytes;
  };
  const std::int64_t before = peak_of(20);
  const std::int64_t large = peak_of(200);
  const std::int64_t after = peak_of(20);
  EXPECT_GT(large, before);
  EXPECT_LT(after, before + (large - before) / 10);
}

// What the allocator kept of another size is in pieces, which would be missing in a batch near the limit.
TEST_F(GpuJob, ABatchSizeBeginsWithoutTheCacheOfAnother) {
  const recipes::Recipe recipe = small_cnn_recipe();
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = start_of(recipe);
  value_of(job->prepare(with(start, "batch_size", std::int64_t{200})));
  value_of(job->run_steps(2, never));
  const DeviceMemory large = device_memory("cuda:0");
  value_of(job->prepare(start));
  const DeviceMemory small = device_memory("cuda:0");
  EXPECT_LT(small.reserved_bytes, large.reserved_bytes);
  // Gradients are gone, too: they lie where the batch before left room.
  EXPECT_LT(small.allocated_bytes, large.allocated_bytes);
  value_of(job->run_steps(2, never));
}

// The loader fills the ring while the device does the last steps of a block. So a loader that keeps up does not make a block
// start over, although its ring is not full when the host has started the last step.
TEST_F(GpuJob, ABlockBesideAFastLoaderDoesNotStartOver) {
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"resnet18", {{"classes", 4}}};
  recipe.data.parameters["shape"] = {3, 96, 96};
  recipe.data.parameters["samples"] = 1024;
  recipe.evaluation.reset();
  recipe.input = {{"to_float", Json::object()}};
  recipe.train.batch_size = 128;
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  Configuration configuration = start_of(recipe);
  configuration.set("loader.workers", std::int64_t{2});
  configuration.set("loader.pin_memory", true);
  configuration.set("transfer.non_blocking", true);
  value_of(job->prepare(configuration));
  const RunRequest request{.minimum_ns = 20'000'000, .minimum_steps = 8};
  value_of(job->run(request, never));
  const std::int64_t before = job->steps();
  const Block block = value_of(job->run(request, never));
  EXPECT_EQ(job->steps() - before, block.steps);
}

TEST_F(GpuJob, KeepsCheckpointsOnTheHost) {
  const auto job = loaded(small_cnn_recipe());
  ASSERT_NE(job, nullptr);
  value_of(job->run_steps(3, never));
  const std::int64_t before = device_memory("cuda:0").allocated_bytes;
  const std::int64_t bytes = value_of(job->keep("one"));
  value_of(job->keep("two"));
  EXPECT_GT(bytes, 0);
  EXPECT_LT(device_memory("cuda:0").allocated_bytes - before, bytes / 10);
  // And the one that is written beside the steps, from page-locked memory.
  const Folder folder;
  const std::string here = value_of(job->digest());
  ASSERT_TRUE(job->begin_export(folder / "later.pt", "note"));
  value_of(job->run_steps(3, never));
  value_of(job->finish_export());
  EXPECT_EQ(value_of(job->import_from(folder / "later.pt", "later")), "note");
  EXPECT_TRUE(job->restore("later"));
  EXPECT_EQ(value_of(job->digest()), here) << "the steps after it are not in it";
}

TEST_F(GpuJob, GivesMemoryBackWhenAskedTo) {
  const recipes::Recipe recipe = small_cnn_recipe();
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  value_of(job->prepare(with(start_of(recipe), "batch_size", std::int64_t{200})));
  value_of(job->run_steps(2, never));
  const DeviceMemory full = device_memory("cuda:0");
  EXPECT_TRUE(job->release_memory());
  EXPECT_LT(device_memory("cuda:0").reserved_bytes, full.reserved_bytes);
  value_of(job->run_steps(2, never));
}

TEST_F(GpuJob, KnowsItsDevice) {
  ASSERT_FALSE(devices_.cuda_uuids.empty());
  EXPECT_EQ(devices_.uuid_of("cuda:0").size(), 36U) << devices_.uuid_of("cuda:0");
}

TEST_F(GpuJob, PageLocksNoMoreThanItMay) {
  const recipes::Recipe recipe = small_recipe();
  machine_.memory_allowed_bytes = 4096;
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = start_of(recipe);
  const auto refused = job->prepare(with(start, "loader.pin_memory", true));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::out_of_memory);
  EXPECT_THAT(refused.error().message(), HasSubstr("would page-lock"));
  value_of(job->run_steps(2, never));
}

// Two configurations that take turns page-lock memory once. It is given back when a third one comes.
TEST_F(GpuJob, PageLocksOnceForTwoConfigurations) {
  const recipes::Recipe recipe = small_recipe();
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  const auto locked = [] { return pinned_memory_bytes("cuda:0"); };
  const Configuration start = start_of(recipe);
  const Configuration pinned =
      with(with(start, "loader.pin_memory", true), "transfer.non_blocking", true);
  value_of(job->run_steps(2, never));
  const std::int64_t before = locked();
  value_of(job->prepare(pinned));
  value_of(job->run_steps(2, never));
  const std::int64_t with_ring = locked();
  EXPECT_GT(with_ring, before);
  for (int i = 0; i < 3; ++i) {
    value_of(job->prepare(start));
    value_of(job->run_steps(2, never));
    EXPECT_EQ(locked(), with_ring) << "kept";
    value_of(job->prepare(pinned));
    value_of(job->run_steps(2, never));
    EXPECT_EQ(locked(), with_ring) << "used again";
  }
  value_of(job->prepare(start));
  value_of(job->prepare(with(start, "batch_size", std::int64_t{40})));
  EXPECT_LT(locked(), with_ring);
  value_of(job->prepare(pinned));
  value_of(job->prepare(start));
  // A change of the step alone: the trial of the memory is over.
  value_of(job->prepare(with(start, "optimizer.set_to_none", false)));
  EXPECT_LT(locked(), with_ring);
}

TEST_F(GpuJob, ComesBackFromACheckpoint) {
  recipes::Recipe recipe = small_recipe();
  recipe.deterministic = true;
  const Folder folder;
  const Configuration start = start_of(recipe);
  const auto job = loaded(recipe);
  ASSERT_NE(job, nullptr);
  value_of(job->run_steps(5, never));
  value_of(job->keep("five"));
  value_of(job->export_to(folder / "five.pt", "five", "note"));
  value_of(job->run_steps(5, never));
  const std::string ten = value_of(job->digest());
  EXPECT_TRUE(job->restore("five"));
  value_of(job->run_steps(5, never));
  EXPECT_EQ(value_of(job->digest()), ten);
  const auto other = loaded(recipe);
  EXPECT_EQ(value_of(other->import_from(folder / "five.pt", "five")), "note");
  EXPECT_TRUE(other->restore("five"));
  value_of(other->run_steps(5, never));
  EXPECT_EQ(value_of(other->digest()), ten);
}

}  // namespace
}  // namespace autotuned::trainer
