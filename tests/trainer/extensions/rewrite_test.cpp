// SPDX-License-Identifier: Apache-2.0
// An extension that rewrites the graph of a TorchScript model.
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/trainer/plugin_job.hpp"

namespace autotuned::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kForward = R"(
def forward(self, x):
    if self.training:
        self.seen.add_(1.0)
    return torch.linear(torch.relu(torch.linear(x.flatten(1), self.first)), self.last)
)";

class Rewrite : public testing::Test {
 protected:
  Rewrite() { ::setenv("AUTOTUNED_TEST_GRAPHS", (folder_ / "notes").c_str(), 1); }
  ~Rewrite() override { ::unsetenv("AUTOTUNED_TEST_GRAPHS"); }

  static recipes::Recipe recipe_of(const std::filesystem::path& file) {
    torch::jit::Module network("Network");
    const auto weight = [](std::int64_t rows, std::int64_t columns) {
      return at::rand({rows, columns}).sub(0.5).set_requires_grad(true);
    };
    network.register_parameter("first", weight(8, 64), false);
    network.register_parameter("last", weight(4, 8), false);
    network.register_buffer("seen", at::zeros({}));
    network.register_attribute("training", c10::BoolType::get(), true);
    network.define(kForward);
    network.save(file);
    recipes::Recipe recipe = small_recipe();
    recipe.model = {"torchscript", {{"file", file.string()}}};
    return recipe;
  }
  Result<Prepared> turn(const std::string& relu) {
    return job_->prepare(with(start_, "graphs.relu", relu));
  }
  // Parameters and buffers after some steps from the initial state.
  std::string digest_under(const std::string& relu) {
    value_of(turn(relu));
    EXPECT_TRUE(job_->restore("initial"));
    value_of(job_->run_steps(12, never));
    if (relu != "negate") value_of(job_->evaluate(never));  // which other answers end
    return value_of(job_->digest());
  }
  std::string error_of(const std::string& relu) {
    auto turned = turn(relu);
    return turned ? "" : turned.error().message();
  }
  [[nodiscard]] std::string notes() const {
    std::ifstream file(folder_ / "notes");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Folder folder_;
  const recipes::Recipe recipe_ = recipe_of(folder_ / "net.pt");
  const Configuration start_ = starting(recipe_);
  std::unique_ptr<Job> job_ = value_of(load_with(recipe_, start_, "graphs"));
};

TEST_F(Rewrite, IsObeyedAndPutBack) {
  const std::string expected = digest_under("relu");
  EXPECT_EQ(notes(), "");
  EXPECT_EQ(digest_under("clamp"), expected);  // of the same tensors, in the same modes
  const std::string negated = digest_under("negate");
  EXPECT_NE(negated, expected);
  EXPECT_EQ(digest_under("relu"), expected);
  // Each was made once and is used again.
  EXPECT_EQ(digest_under("negate"), negated);
  EXPECT_EQ(digest_under("clamp"), expected);
  EXPECT_EQ(notes(), "clamp\nnegate\n");
}

TEST_F(Rewrite, MayLeaveEverythingAsItIs) {
  const std::string expected = digest_under("relu");
  EXPECT_EQ(digest_under("looks"), expected);
  EXPECT_EQ(notes(), "looks\n");
}

TEST_F(Rewrite, IsComparedWithTheScriptAsItWasRead) {
  value_of(turn("clamp"));
  value_of(job_->advance({.steps = 2}, never));
  value_of(job_->evaluate(never));
  const std::string before = value_of(job_->digest());
  value_of(turn("negate"));
  const auto stretch = job_->advance({.steps = 1}, never);
  ASSERT_FALSE(stretch);
  EXPECT_THAT(stretch.error().message(),
              HasSubstr("plugin graphs: forward: the gradients are not those of the model's own "
                        "forward"));
  EXPECT_FALSE(job_->evaluate(never));
  value_of(turn("relu"));
  value_of(job_->advance({.steps = 1}, never));
  EXPECT_NE(value_of(job_->digest()), before);
}

TEST_F(Rewrite, ATensorThatItAddsIsSeen) {
  EXPECT_THAT(error_of("adds"),
              AllOf(HasSubstr("plugin graphs: rewrite: more was not there before"),
                    HasSubstr("the optimizer holds them")));
}

TEST_F(Rewrite, AParameterThatItFreezesIsSeen) {
  EXPECT_THAT(error_of("freezes"),
              AllOf(HasSubstr("plugin graphs: rewrite: "), HasSubstr(" is not trained any more")));
}

TEST_F(Rewrite, WhatItThrowsIsNamed) {
  EXPECT_THAT(error_of("throws"), HasSubstr("plugin graphs: rewrite: no graph is good enough"));
}

TEST_F(Rewrite, IsNotAskedOfOtherModels) {
  const recipes::Recipe recipe = small_recipe();
  const auto job =
      value_of(load_with(recipe, with(starting(recipe), "graphs.relu", "negate"), "graphs"));
  ASSERT_NE(job, nullptr);
  value_of(job->run_steps(1, never));
  EXPECT_EQ(notes(), "");
}

}  // namespace
}  // namespace autotuned::trainer
