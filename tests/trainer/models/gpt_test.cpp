// SPDX-License-Identifier: Apache-2.0
// The model gpt against nanoGPT's network in Python (gpt_reference.py).
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "tests/places.hpp"
#include "tests/trainer/models/formula.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/common/precision.hpp"
#include "trainer/models/loss.hpp"
#include "trainer/state/checkpoint.hpp"
#include "trainer/step/model_start.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

recipes::Component spec_of(const Json& model) {
  recipes::Component spec{"gpt", model};
  spec.parameters.erase("type");
  return spec;
}

// The shape of blocks with so many tokens and the one after them.
input::SampleShape block_of(std::int64_t tokens) {
  return {.channels = 1, .height = 1, .width = static_cast<int>(tokens + 1)};
}

std::shared_ptr<Model> made(const Json& model, std::int64_t tokens) {
  at::manual_seed(3);
  return value_of(make_model(spec_of(model), block_of(tokens)));
}

// As blocks_of() of gpt_reference.py.
at::Tensor blocks_of(std::int64_t samples, std::int64_t length, std::int64_t vocabulary) {
  const at::Tensor places = at::arange(samples * length, at::kLong);
  return (places * places * 3 + 1).remainder(vocabulary).view({samples, length});
}

Json small(const Json& other = Json::object()) {
  Json model = {{"type", "gpt"},    {"layers", 2},    {"heads", 2},   {"width", 16}, {"context", 8},
                {"vocabulary", 11}, {"dropout", 0.0}, {"bias", true}, {"tied", true}};
  model.update(other);
  return model;
}

TEST(Gpt, HasTheNamesAndTheInitialStateOfThatInPython) {
  for (const Json& entry : reference("gpt.json")) {
    SCOPED_TRACE(entry["model"].dump());
    const auto model = made(entry["model"], entry["tokens"]);
    ASSERT_TRUE(model);
    std::int64_t count = 0;
    std::vector<std::string> names;
    for (const auto& parameter : model->named_parameters()) {
      names.push_back(parameter.key() + " " + shape_in_reference(parameter.value()));
      count += parameter.value().numel();
    }
    EXPECT_EQ(count, entry["parameters"]);
    EXPECT_EQ(Json(names), entry["names"]);
    expect_near_reference(norms_of(model->parameters()), entry["initial_norms"], 1e-5, 1e-9);
  }
}

TEST(Gpt, ComputesWhatThatInPythonDoes) {
  for (const Json& entry : reference("gpt.json")) {
    SCOPED_TRACE(entry["model"].dump());
    const std::int64_t samples = entry["samples"];
    const std::int64_t tokens = entry["tokens"];
    const auto model = made(entry["model"], tokens);
    ASSERT_TRUE(model);
    // In double precision: what is left are differences of the mathematics.
    fill(*model);
    model->to(at::kDouble);
    const at::Tensor blocks = blocks_of(samples, tokens + 1, model->classes());
    const at::Tensor inputs = blocks.narrow(1, 0, tokens);
    model->eval();
    {
      const at::NoGradGuard no_grad;
      const at::Tensor logits = model->forward(inputs);
      EXPECT_EQ(logits.sizes(), (at::IntArrayRef{samples, tokens, model->classes()}));
      expect_near_reference(numbers_of(logits), entry["eval_output"], 1e-8, 1e-8);
    }
    model->train();
    at::manual_seed(5);
    const at::Tensor loss =
        loss_of(Loss::cross_entropy, model->forward(inputs), blocks.narrow(1, 1, tokens));
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), entry["loss"].get<double>(), 1e-8);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : model->parameters())
      gradients.push_back(parameter.grad());
    expect_near_reference(norms_of(gradients), entry["gradient_norms"], 1e-7, 1e-8);
  }
}

// A token must not depend on those that follow it.
TEST(Gpt, SeesOnlyWhatCameBefore) {
  const auto model = made(small(), 8);
  ASSERT_TRUE(model);
  fill(*model);
  const at::NoGradGuard no_grad;
  at::Tensor tokens = blocks_of(1, 8, 11).clone();
  const at::Tensor before = model->forward(tokens);
  tokens.select(1, 5).add_(1).remainder_(11);
  const at::Tensor after = model->forward(tokens);
  EXPECT_TRUE(at::allclose(before.narrow(1, 0, 5), after.narrow(1, 0, 5)));
  for (std::int64_t i = 5; i < 8; ++i)
    EXPECT_FALSE(at::allclose(before.select(1, i), after.select(1, i))) << i;
}

TEST(Gpt, LearnsUnderBf16) {
  const auto model = made(small({{"dropout", 0.1}}), 8);
  ASSERT_TRUE(model);
  const at::Tensor blocks = blocks_of(4, 9, 11);
  const AutocastGuard autocast(at::kCPU, at::kBFloat16);
  const at::Tensor logits = model->forward(blocks.narrow(1, 0, 8));
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  const at::Tensor loss = loss_of(Loss::cross_entropy, logits, blocks.narrow(1, 1, 8));
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  loss.backward();
  for (const at::Tensor& parameter : model->parameters())
    EXPECT_TRUE(at::isfinite(parameter.grad()).all().item<bool>());
}

TEST(Gpt, NamesWhatDoesNotFit) {
  const auto error_of = [](const Json& model, std::int64_t tokens) {
    const auto refused = make_model(spec_of(model), block_of(tokens));
    return refused ? std::string() : refused.error().message();
  };
  EXPECT_THAT(error_of(small(), 9),
              HasSubstr("takes blocks of at most 8 tokens, and those of the data have 9"));
  EXPECT_THAT(error_of(small({{"heads", 3}}), 8), HasSubstr("must be a multiple of heads, 3"));
}

// gpt_state_dict.pt holds what torch.save(dict(model.state_dict()), FILE) gives, with a tied parameter under both names.
TEST(Gpt, TakesWeightsOfPython) {
  const std::string file =
      (tests::source_folder() / "tests/trainer/models/data/gpt_state_dict.pt").string();
  const Json shape = small({{"layers", 1}, {"width", 8}, {"context", 6}});
  const auto expected = made(shape, 6);
  const auto model = made(shape, 6);
  ASSERT_TRUE(expected && model);
  fill(*expected);
  recipes::Component spec = spec_of(shape);
  spec.parameters["weights"] = file;
  const auto started = start_as(spec, *model);
  ASSERT_TRUE(started) << started.error().message();
  const auto own = model->named_parameters();
  for (const auto& parameter : expected->named_parameters())
    EXPECT_TRUE(at::equal(own[parameter.key()], parameter.value())) << parameter.key();

  // Not tied, it has two.
  recipes::Component untied =
      spec_of(small({{"layers", 1}, {"width", 8}, {"context", 6}, {"tied", false}}));
  untied.parameters["weights"] = file;
  const auto other = value_of(make_model(untied, block_of(6)));
  ASSERT_TRUE(start_as(untied, *other));
  EXPECT_TRUE(
      at::equal(other->named_parameters()["lm_head.weight"], own["transformer.wte.weight"]));
}

TEST(Gpt, RefusesWeightsThatDifferWhereItHasOne) {
  const Folder folder;
  const auto untied = made(small({{"tied", false}}), 8);
  ASSERT_TRUE(untied);
  Checkpoint checkpoint;
  for (const auto& parameter : untied->named_parameters())
    checkpoint.parameters.emplace_back(parameter.key(), parameter.value().detach());
  ASSERT_TRUE(write_model(folder / "untied.pt", checkpoint));
  recipes::Component spec = spec_of(small());
  spec.parameters["weights"] = (folder / "untied.pt").string();
  const auto tied = value_of(make_model(spec, block_of(8)));
  const auto refused = start_as(spec, *tied);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("lm_head.weight and transformer.wte.weight differ"));
  // What keeps its initial values is not compared.
  spec.parameters["weights_except"] = {"transformer.wte"};
  const at::Tensor initial = tied->named_parameters()["transformer.wte.weight"].detach().clone();
  ASSERT_TRUE(start_as(spec, *tied));
  EXPECT_TRUE(at::equal(tied->named_parameters()["transformer.wte.weight"], initial));
}

TEST(Gpt, TakesATiedWeightUnderEitherName) {
  const Folder folder;
  const auto source = made(small(), 8);
  ASSERT_TRUE(source);
  fill(*source);
  const std::string first = "transformer.wte.weight";
  const at::Tensor expected = source->named_parameters()[first].detach();
  // `of_head`: what the file has under the second name.
  const auto started_with = [&](const at::Tensor& of_head, bool has_first) {
    Checkpoint checkpoint;
    for (const auto& parameter : source->named_parameters()) {
      if (parameter.key() == first && !has_first) continue;
      checkpoint.parameters.emplace_back(parameter.key(), parameter.value().detach());
    }
    checkpoint.parameters.emplace_back("lm_head.weight", of_head);
    EXPECT_TRUE(write_model(folder / "some.pt", checkpoint));
    recipes::Component spec = spec_of(small());
    spec.parameters["weights"] = (folder / "some.pt").string();
    const auto model = value_of(make_model(spec, block_of(8)));
    const auto started = start_as(spec, *model);
    if (!started) return started.error().message();
    EXPECT_TRUE(at::equal(model->named_parameters()[first], expected));
    return std::string();
  };
  EXPECT_EQ(started_with(expected, false), "");
  EXPECT_EQ(started_with(expected.to(at::kDouble), true), "");
  EXPECT_THAT(started_with(expected.to(at::kDouble) + 1, true), HasSubstr("differ"));
}

}  // namespace
}  // namespace autotuned::trainer
