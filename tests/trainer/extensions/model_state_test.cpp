// SPDX-License-Identifier: Apache-2.0
// Memory of a model's tensors before and after an extension is applied.
#include "trainer/extensions/model_state.hpp"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace autotuned::trainer {
namespace {

class Two final : public torch::nn::Module {
 public:
  Two()
      : filters(register_parameter("filters", at::zeros({4, 3, 2, 2}))),
        matrix(register_parameter("matrix", at::zeros({6, 8}))) {}

  at::Tensor filters;
  at::Tensor matrix;
};

std::string difference_by(Two& model, const std::function<void()>& change,
                          Freezing freezing = Freezing::refused) {
  const ModelState before = model_state_of(model);
  change();
  return tensor_difference(before, model_state_of(model), freezing);
}

TEST(ModelState, NumbersMayLieElsewhereAndInAnotherOrder) {
  const auto shared = std::make_shared<Two>();
  Two& model = *shared;
  EXPECT_EQ(difference_by(model,
                          [&] {
                            model.filters.set_data(
                                model.filters.detach().contiguous(at::MemoryFormat::ChannelsLast));
                          }),
            "");
  // One storage for all, side by side, with gaps.
  const at::Tensor memory = at::zeros({200});
  EXPECT_EQ(difference_by(model,
                          [&] {
                            model.matrix.set_data(memory.as_strided({6, 8}, {10, 1}, 0));
                            model.filters.set_data(memory.narrow(0, 60, 48).view({4, 3, 2, 2}));
                          }),
            "");
}

TEST(ModelState, NumbersOfATensorMustNotShareMemory) {
  const std::string folded = "numbers of matrix share memory, which they did not";
  for (const std::int64_t stride : {0, 4}) {
    const auto model = std::make_shared<Two>();
    const at::Tensor memory = at::zeros({48});
    const auto fold = [&] { model->matrix.set_data(memory.as_strided({6, 8}, {stride, 1})); };
    EXPECT_EQ(difference_by(*model, fold), folded) << stride;
    EXPECT_EQ(difference_by(*model, fold), "") << "they did before";
  }
  const auto model = std::make_shared<Two>();
  EXPECT_EQ(difference_by(
                *model,
                [&] {
                  model->matrix.set_data(at::zeros({1, 8}).expand({6, 8}));
                },
                Freezing::allowed),
            "");
}

TEST(ModelState, TensorsMustNotComeToShareMemory) {
  const auto shared = std::make_shared<Two>();
  Two& model = *shared;
  const at::Tensor memory = at::zeros({95});
  const auto tie = [&] {
    model.matrix.set_data(memory.narrow(0, 0, 48).view({6, 8}));
    model.filters.set_data(memory.narrow(0, 47, 48).view({4, 3, 2, 2}));
  };
  EXPECT_EQ(difference_by(model, tie), "filters and matrix share memory, which they did not");
  EXPECT_EQ(difference_by(model, tie), "") << "they did before";
}

}  // namespace
}  // namespace autotuned::trainer
