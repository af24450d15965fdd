// SPDX-License-Identifier: Apache-2.0
// Jobs that cannot obey cuda.graph, on a machine that has a GPU.
#include <gmock/gmock.h>

#include "tests/trainer/plugin_job.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

Machine machine_with_gpu() {
  Machine machine = test_machine();
  machine.gpus.emplace_back();
  return machine;
}

Error refusal(const recipes::Recipe& recipe, const Configuration& configuration,
              std::vector<plugins::TrainerLibrary> libraries = {}) {
  const auto job = Job::load(recipe, with(configuration, "cuda.graph", true), machine_with_gpu(),
                             cpu_only(), std::move(libraries));
  return job ? Error{} : job.error();
}

TEST(CudaGraphJob, RunsOnTheCpu) {
  const Error error = refusal(small_recipe(), starting(small_recipe()));
  EXPECT_EQ(error.kind, ErrorKind::unsupported);
  EXPECT_THAT(error.message(), HasSubstr("cuda.graph: the job runs on cpu"));
}

TEST(CudaGraphJob, WaitsOnTheHost) {
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"paced", {{"step_ms", 1}, {"classes", 4}}};
  EXPECT_THAT(refusal(recipe, starting(recipe)).message(), HasSubstr("paced waits on the host"));
}

TEST(CudaGraphJob, HasAnExtensionAtWork) {
  const Configuration counts = with(starting(small_recipe()), "tricks.trick", "counts");
  EXPECT_THAT(refusal(small_recipe(), counts, {fixture("tricks")}).message(),
              HasSubstr("code of an extension runs in the step (tricks.trick)"));
}

TEST(CudaGraphJob, GoesOnAfterARefusal) {
  const Configuration start = starting(small_recipe());
  const auto job = value_of(Job::load(small_recipe(), start, machine_with_gpu(), cpu_only(), {}));
  value_of(job->run_steps(2, never));
  const auto prepared = job->prepare(with(start, "cuda.graph", true));
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(job->configuration().flag("cuda.graph"), false);
  value_of(job->run_steps(2, never));
}

}  // namespace
}  // namespace autotuned::trainer
