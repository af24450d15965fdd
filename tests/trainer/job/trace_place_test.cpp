// SPDX-License-Identifier: Apache-2.0
// From recorded steps of a job with patch dropout to what the plugin says that makes its backward faster.
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

#include "daemon/trainers/trace_findings.hpp"
#include "tests/plugins/loader_scene.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

// The reason of the proposal, with what a trace of these steps told.
std::string reason_for(const recipes::Recipe& recipe) {
  const Folder folder;
  const std::filesystem::path file = folder / "a.pt.trace.json.gz";
  const auto job = load(recipe);
  if (job == nullptr) return {};
  value_of(job->trace({.file = file, .warmup = 1, .active = 3}, never));
  tuner::StepProfile profile;
  const auto added = daemon::add_findings(file, profile);
  if (!added) return added.error().message();
  Json asked = plugins::situation("fashion_cnn_cpu");
  asked["metrics"]["operators.gather_ratio"] = 0.4;
  asked["places"] = profile.places;
  return plugins::first_reason(plugins::ask("gather_to_indexing", asked));
}

TEST(TracePlace, OfANativeModelIsItsPatchDropout) {
  EXPECT_THAT(reason_for(patch_dropout_recipe()),
              HasSubstr("40 % of the step, 100 % of it in model.patch_drop;"));
}

TEST(TracePlace, OfAScriptIsTheModuleByItsPath) {
  torch::jit::Module drop("Drop");
  drop.define(
      "def forward(self, x):\n"
      "    index = torch.arange(4).view(1, 4, 1).expand(x.size(0), 4, x.size(2))\n"
      "    return torch.gather(x, 1, index)\n");
  torch::jit::Module stem("Stem");
  stem.register_parameter("weight", at::empty({8, 4}).fill_(0.1).set_requires_grad(true), false);
  stem.register_module("drop", drop);
  stem.define(
      "def forward(self, x):\n"
      "    return self.drop.forward(torch.linear(x.view(-1, 16, 4), self.weight))\n");
  torch::jit::Module net("Net");
  net.register_parameter("head", at::empty({4, 8}).fill_(0.1).set_requires_grad(true), false);
  net.register_module("stem", stem);
  net.define(
      "def forward(self, x):\n"
      "    return torch.linear(self.stem.forward(x).mean(1), self.head)\n");
  const Folder folder;
  net.save(folder / "net.pt");
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"torchscript", {{"file", (folder / "net.pt").string()}}};
  EXPECT_THAT(reason_for(recipe), HasSubstr("100 % of it in model.stem.drop;"));
}

}  // namespace
}  // namespace autotuned::trainer
