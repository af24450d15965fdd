// SPDX-License-Identifier: Apache-2.0
// Modules in 32 bit while autocast has the rest in 16.
#include "trainer/step/kept_modules.hpp"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include "tests/trainer/small_job.hpp"
#include "trainer/common/precision.hpp"
#include "trainer/models/call.hpp"
#include "trainer/models/model.hpp"

namespace autotuned::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

recipes::Recipe vit_recipe() {
  recipes::Recipe recipe = patch_dropout_recipe();
  recipe.model.parameters["depth"] = 1;
  recipe.model.parameters["patch_dropout"] = 0.0;
  return recipe;
}

std::shared_ptr<Model> model_of(const recipes::Recipe& recipe) {
  at::manual_seed(1);
  return value_of(make_model(recipe.model, {.channels = 1, .height = 8, .width = 8}));
}

// The names of what is kept.
std::vector<std::string> kept_of(const Model& model, const std::string& value) {
  const auto kept = kept_modules(model, value);
  if (!kept) return {kept.error().message()};
  std::vector<std::string> names;
  for (const auto& module : model.named_modules("", false)) {
    const void* const address = module.value().get();
    if (std::ranges::binary_search(kept->modules, address)) names.push_back(module.key());
  }
  EXPECT_EQ(names.size(), kept->modules.size());
  if (kept->has_loss) names.emplace_back("loss");
  return names;
}

TEST(KeptModules, AreFoundByWordsAndNames) {
  const auto model = model_of(vit_recipe());
  EXPECT_THAT(kept_of(*model, "none"), ElementsAre());
  EXPECT_THAT(kept_of(*model, "loss"), ElementsAre("loss"));
  EXPECT_THAT(kept_of(*model, "norms"),
              UnorderedElementsAre("blocks.0.norm1", "blocks.0.norm2", "fc_norm"));
  EXPECT_THAT(kept_of(*model, "last"), ElementsAre("head"));
  EXPECT_THAT(kept_of(*model, "blocks.0.mlp"),
              UnorderedElementsAre("blocks.0.mlp", "blocks.0.mlp.fc1", "blocks.0.mlp.fc2"));
  EXPECT_THAT(kept_of(*model, "last,head,loss,blocks.0.norm1"),
              UnorderedElementsAre("blocks.0.norm1", "head", "loss"));
  EXPECT_THAT(kept_of(*model, "haed"),
              ElementsAre(HasSubstr("no module 'haed'; did you mean 'head'")));
  EXPECT_THAT(kept_of(*model, "other"), ElementsAre(HasSubstr("its modules are blocks, blocks.0")));
  // Not the beginning of another name.
  EXPECT_THAT(kept_of(*model, "blocks.0.norm"), ElementsAre(HasSubstr("no module")));
  EXPECT_THAT(kept_of(*model_of(small_recipe()), "norms"),
              ElementsAre(HasSubstr("has no normalisations")));
}

TEST(KeptModules, ComputeIn32BitWithTheirGradients) {
  at::manual_seed(2);
  torch::nn::Linear kept(4, 3);
  torch::nn::Linear other(4, 4);
  const torch::nn::Module* const address = kept.get();
  const std::vector<const void*> modules = {address};
  const at::Tensor images = at::randn({5, 4});
  at::Tensor between;
  at::Tensor result;
  {
    const AutocastGuard autocast(at::kCPU, at::kBFloat16);
    const Float32Scope scope(at::kCPU, modules);
    between = call(other, images);
    result = call(kept, between);
    EXPECT_EQ(between.scalar_type(), at::kBFloat16);
    EXPECT_EQ(result.scalar_type(), at::kFloat);
    EXPECT_EQ(call(other, images).scalar_type(), at::kBFloat16);  // autocast goes on behind it
  }
  EXPECT_EQ(Float32Scope::of(address), nullptr);
  result.square().sum().backward();
  const at::Tensor input = between.detach().to(at::kFloat);
  const at::Tensor written = at::linear(input, kept->weight.detach(), kept->bias.detach());
  EXPECT_TRUE(at::equal(result.detach(), written));
  EXPECT_TRUE(at::allclose(kept->weight.grad(), (2.0 * written).t().mm(input), 1e-6, 1e-6));
  EXPECT_EQ(other->weight.grad().scalar_type(), at::kFloat);
  EXPECT_GT(other->weight.grad().abs().sum().item<double>(), 0.0);
}

std::string digest_under(Job& job, const Configuration& configuration) {
  value_of(job.prepare(configuration));
  EXPECT_TRUE(job.restore("initial"));
  value_of(job.run_steps(5, never));
  return value_of(job.digest());
}

// All of a model kept is a model without autocast, to the last bit.
TEST(KeptModules, OfAJob) {
  for (const recipes::Recipe& recipe : {small_recipe(), small_cnn_recipe()}) {
    SCOPED_TRACE(recipe.model.type);
    const auto job = load(recipe);
    EXPECT_EQ(job->facts().keep_float32_obstacle, "");
    const Configuration start = starting(recipe);
    const Configuration bf16 = with(start, "precision.autocast", "bf16");
    const auto keeping = [&](const std::string& value) {
      return digest_under(*job, with(bf16, "precision.keep_float32", value));
    };
    const std::string plain = digest_under(*job, start);
    EXPECT_EQ(digest_under(*job, with(start, "precision.keep_float32", "last")), plain);
    EXPECT_EQ(keeping(recipe.model.type == "mlp" ? "hidden,output,loss" : "conv1,conv2,last,loss"),
              plain);
    const std::string all_in_16 = keeping("none");
    const std::string last_in_32 = keeping("last");
    EXPECT_NE(all_in_16, plain);
    EXPECT_NE(last_in_32, plain);
    EXPECT_NE(last_in_32, all_in_16);
    EXPECT_EQ(keeping("none"), all_in_16);
  }
}

TEST(KeptModules, ThatAreNotThereChangeNothing) {
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe);
  Configuration other = with(starting(recipe), "precision.keep_float32", "conv1");
  other.set("loader.workers", std::int64_t{1});
  const auto prepared = job->prepare(other);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().kind, ErrorKind::invalid);
  EXPECT_EQ(prepared.error().message(),
            "precision.keep_float32: the model has no module 'conv1'; its modules are hidden, "
            "output");
  EXPECT_EQ(job->configuration(), starting(recipe));
  const auto loaded = Job::load(recipe, other, test_machine(), cpu_only());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message(), prepared.error().message());
}

}  // namespace
}  // namespace autotuned::trainer
