// SPDX-License-Identifier: Apache-2.0
// Row selection in the place of gather: the same bits, gradients and errors as LibTorch's own.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/jit.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "trainer/step/gather.hpp"
#include "trainer/step/gather_rows.hpp"

namespace autotuned::trainer {
namespace {

using ::testing::HasSubstr;

struct Case {
  at::Tensor source;
  std::int64_t dim = 1;
  at::Tensor index;
  bool sparse_grad = false;
  std::string words;  // for messages
};

// Everything that can be seen of a call: value, gradient, gradient made to be differentiated, second
// derivative; or what was thrown.
struct Outcome {
  std::vector<at::Tensor> tensors;
  std::string error;
  std::string backward_node;
};

bool is_bitwise_equal(const at::Tensor& a, const at::Tensor& b) {
  if (a.layout() != at::kStrided) {
    return a.layout() == b.layout() && is_bitwise_equal(a.to_dense(), b.to_dense());
  }
  if (a.sizes() != b.sizes() || a.strides() != b.strides() || a.scalar_type() != b.scalar_type()) {
    return false;
  }
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Numbers of which some are -0: 0 + -0 is +0, and a copy would keep the sign.
at::Tensor numbers_like(const at::Tensor& tensor, std::uint64_t seed) {
  at::manual_seed(seed);
  at::Tensor numbers = at::randn(tensor.sizes(), at::kDouble);
  numbers.masked_fill_(at::rand(tensor.sizes()).lt(0.2), -0.0);
  return numbers.to(tensor.scalar_type());
}

using Gather = std::function<at::Tensor(const Case&, const at::Tensor& source)>;

at::Tensor native(const Case& one, const at::Tensor& source) {
  return at::gather(source, one.dim, one.index, one.sparse_grad);
}

Outcome outcome_of(const Case& one, const Gather& gather = native) {
  Outcome outcome;
  try {
    const bool has_gradient = one.source.is_floating_point() || one.source.is_complex();
    // The layout of the source is part of the case: no copy, but a leaf of its own.
    const at::Tensor source = one.source.detach().requires_grad_(has_gradient);
    const at::Tensor value = gather(one, source);
    outcome.tensors.push_back(value.detach());
    if (!has_gradient) return outcome;
    outcome.backward_node = value.grad_fn()->name();
    const at::Tensor weights = numbers_like(value, 5).requires_grad_(true);
    const auto gradient = [&](const at::Tensor& of, const at::Tensor& at, const at::Tensor& with,
                              bool creates_graph) {
      return torch::autograd::grad({of}, {at}, {with}, /*retain_graph=*/true, creates_graph)[0];
    };
    outcome.tensors.push_back(gradient(value, source, weights.detach(), false));
    if (one.sparse_grad) return outcome;
    // As after a sum: the same number everywhere, without memory of its own.
    outcome.tensors.push_back(
        gradient(value, source, at::ones({1}, value.options()).expand(value.sizes()), false));
    // As after a concatenation: a slice of something larger.
    if (one.source.dim() > 1 && value.numel() > 0) {
      std::vector<std::int64_t> wider = value.sizes().vec();
      wider[1] += 2;
      const at::Tensor slice =
          numbers_like(at::empty(wider, value.options()), 6).narrow(1, 1, value.size(1));
      outcome.tensors.push_back(gradient(value, source, slice, false));
    }
    const at::Tensor first = gradient(value, source, weights, true);
    outcome.tensors.push_back(first.detach());
    outcome.tensors.push_back(gradient(first, weights, numbers_like(first, 7), false));
  } catch (const c10::Error& error) {
    outcome.error = error.what_without_backtrace();
  }
  return outcome;
}

void expect_same(const Case& one, const Outcome& actual, const Outcome& expected) {
  EXPECT_EQ(actual.error, expected.error) << one.words;
  ASSERT_EQ(actual.tensors.size(), expected.tensors.size()) << one.words;
  for (std::size_t i = 0; i < actual.tensors.size(); ++i) {
    EXPECT_TRUE(is_bitwise_equal(actual.tensors[i], expected.tensors[i]))
        << one.words << ", tensor " << i;
  }
}

bool is_row_selection(const Outcome& outcome) {
  return outcome.backward_node.find("GatherRows") != std::string::npos;
}

// Expects the same with and without the rewrite; returns what it was with it.
Outcome expect_same_with_rewrite(const Case& one, const Gather& gather = native) {
  const Outcome expected = outcome_of(one, gather);
  EXPECT_FALSE(is_row_selection(expected));
  const auto rewrite = rewrite_gather();
  const Outcome actual = outcome_of(one, gather);
  expect_same(one, actual, expected);
  return actual;
}

at::Tensor expanded(const at::Tensor& indices, std::int64_t length) {
  return indices.unsqueeze(-1).expand({-1, -1, length});
}

// What patch dropout does: a random half of 12 tokens of 5 samples, each once.
Case patch_dropout(at::ScalarType type = at::kFloat) {
  at::manual_seed(1);
  const at::Tensor source = at::randn({5, 12, 48}).to(type);
  const at::Tensor kept = at::randn({5, 12}).argsort(/*stable=*/false, 1).slice(1, 0, 6);
  return {.source = source, .index = expanded(kept, 48), .words = "patch dropout"};
}

TEST(Gather, SelectsRowsForExpandedIndices) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(patch_dropout(type)))) << type;
  }
}

TEST(Gather, SelectsRowsOfSlices) {
  Case one = patch_dropout();
  one.source = at::randn({5, 13, 48}).slice(1, 1);
  EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(one)));
  one.source = at::randn({5, 48, 12}).transpose(1, 2);
  EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(one)));
  one.source = at::randn({1, 12, 48}).expand({5, -1, -1});
  EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(one)));
}

TEST(Gather, AddsRepeatedRowsInTheSameOrder) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    Case one = patch_dropout(type);
    one.words = "repeated rows";
    // 200 of 12 rows: sums of 16 numbers and more, where order and rounding show.
    one.index = expanded(at::randint(12, {5, 200}), 48);
    EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(one))) << type;
    one.index = expanded(at::full({5, 200}, 3), 48);
    EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(one))) << type;
  }
}

TEST(Gather, SharesTheWorkOfLargeTensors) {
  at::manual_seed(2);
  for (const std::int64_t batches : {1, 16}) {
    const Case one{.source = at::randn({batches, 196, 768}),
                   .index = expanded(at::randint(196, {batches, 98}), 768),
                   .words = "large"};
    EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(one)));
  }
}

TEST(Gather, RefusesInvalidIndicesAsGatherDoes) {
  for (const std::int64_t invalid : {-1, 12, -12, 1'000'000}) {
    Case one = patch_dropout();
    at::Tensor kept = one.index.select(2, 0).contiguous();
    kept[4][5] = invalid;
    one.index = expanded(kept, 48);
    EXPECT_THAT(expect_same_with_rewrite(one).error, HasSubstr("out of bounds")) << invalid;
  }
}

TEST(Gather, LeavesOtherCallsToLibTorch) {
  const auto expect_left_alone = [](const Case& one) {
    EXPECT_FALSE(is_row_selection(expect_same_with_rewrite(one))) << one.words;
  };
  Case one = patch_dropout();
  one.words = "sparse gradient";
  one.sparse_grad = true;
  expect_left_alone(one);

  one = patch_dropout();
  one.words = "an index of its own per element";
  one.index = at::randint(12, {5, 6, 48});
  expect_left_alone(one);

  one.words = "an index that is the same along the last dimension, but not provably so";
  one.index = patch_dropout().index.contiguous();
  expect_left_alone(one);

  one.words = "part of each row";
  one.index = expanded(at::randint(12, {5, 6}), 20);
  expect_left_alone(one);

  one.words = "part of the batch";
  one.index = expanded(at::randint(12, {4, 6}), 48);
  expect_left_alone(one);

  one.words = "the first dimension";
  one.dim = 0;
  one.index = at::randint(5, {3, 1, 1}).expand({3, 12, 48});
  expect_left_alone(one);

  one.words = "the last dimension";
  one.dim = 2;
  one.index = at::randint(48, {5, 12, 1});
  expect_left_alone(one);

  one = patch_dropout();
  one.words = "whole numbers";
  one.source = at::randint(100, {5, 12, 48});
  expect_left_alone(one);

  one.words = "complex numbers";
  one.source = at::randn({5, 12, 48}, at::kComplexDouble);
  expect_left_alone(one);

  one = patch_dropout();
  one.words = "conjugates in waiting";
  one.source = at::imag(at::randn({5, 12, 48}, at::kComplexDouble).conj());
  ASSERT_TRUE(one.source.is_neg());
  expect_left_alone(one);

  one = patch_dropout();
  one.words = "no rows";
  one.index = expanded(at::zeros({5, 0}, at::kLong), 48);
  expect_left_alone(one);

  one.words = "no elements";
  one.source = at::randn({5, 12, 0});
  one.index = expanded(at::zeros({5, 6}, at::kLong), 0);
  expect_left_alone(one);
}

TEST(Gather, ThrowsWhatGatherThrows) {
  const auto expect_error = [](const Case& one, const std::string& words) {
    EXPECT_THAT(expect_same_with_rewrite(one).error, HasSubstr(words));
  };
  Case one = patch_dropout();
  one.index = one.index.to(at::kFloat);
  expect_error(one, "int");
  one = patch_dropout();
  one.dim = 3;
  expect_error(one, "Dimension out of range");
  one = patch_dropout();
  one.index = one.index.select(2, 0);
  expect_error(one, "same number of dimensions");
  one = patch_dropout();
  one.source = one.source.slice(0, 0, 3);
  expect_error(one, "to be no larger");
}

// Calls of any shape, layout and type, valid or not.
class RandomCase {
 public:
  explicit RandomCase(unsigned seed) : random_(seed) { at::manual_seed(seed); }

  Case make() {
    Case one;
    const std::int64_t dimensions = between(1, 5);
    std::vector<std::int64_t> sizes;
    for (std::int64_t d = 0; d < dimensions; ++d)
      sizes.push_back(between(between(0, 12) == 0 ? 0 : 1, d == dimensions - 1 ? 33 : 4));
    const std::int64_t dim = between(0, dimensions - 1);
    one.dim = happens(2) ? dim : dim - dimensions;
    one.source = laid_out(sizes).to(type());
    one.index = index_of(sizes, dim);
    one.sparse_grad = happens(15);
    one.words = "sizes " + c10::str(at::IntArrayRef(sizes)) + " strides " +
                c10::str(one.source.strides()) + " dim " + std::to_string(one.dim) + " index " +
                c10::str(one.index.sizes()) + " strides " + c10::str(one.index.strides()) +
                " type " + c10::str(one.source.scalar_type());
    return one;
  }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool happens(std::int64_t one_in) { return between(1, one_in) == 1; }

  at::ScalarType type() {
    constexpr std::array kTypes = {at::kFloat,    at::kFloat, at::kDouble,      at::kHalf,
                                   at::kBFloat16, at::kLong,  at::kComplexFloat};
    return kTypes[static_cast<std::size_t>(between(0, std::ssize(kTypes) - 1))];
  }

  at::Tensor laid_out(const std::vector<std::int64_t>& sizes) {
    const std::int64_t d = between(0, std::ssize(sizes) - 1);
    const auto at = static_cast<std::size_t>(d);
    std::vector<std::int64_t> wider = sizes;
    switch (between(0, 4)) {
      case 0:  // a slice
        wider[at] += 2;
        return at::randn(wider).narrow(d, 1, sizes[at]);
      case 1:  // every second
        wider[at] *= 2;
        return at::randn(wider).slice(d, 0, std::nullopt, 2);
      case 2:  // other order
        std::swap(wider[0], wider[at]);
        return at::randn(wider).transpose(0, d);
      case 3:  // the same again and again
        wider[at] = sizes[at] == 0 ? 0 : 1;
        return at::randn(wider).expand(sizes);
      default:
        return at::randn(sizes);
    }
  }

  at::Tensor index_of(std::vector<std::int64_t> sizes, std::int64_t dim) {
    const auto at = static_cast<std::size_t>(dim);
    const std::int64_t rows = sizes[at];
    sizes[at] = between(happens(10) ? 0 : 1, 8);
    if (happens(10)) {
      std::int64_t& other = sizes[static_cast<std::size_t>(between(0, std::ssize(sizes) - 1))];
      other = between(other / 2, other + 1);
    }
    std::vector<std::int64_t> own = sizes;
    if (!happens(6)) {
      for (std::size_t d = at + 1; d < own.size(); ++d)
        own[d] = std::min<std::int64_t>(own[d], 1);
    }
    at::Tensor indices = at::randint(std::max<std::int64_t>(rows, 1), own);
    if (happens(8) && indices.numel() > 0) {
      indices.view(-1)[between(0, indices.numel() - 1)] = happens(2) ? rows : -1;
    }
    if (happens(3) && own.size() > 1)
      indices = indices.transpose(0, 1).contiguous().transpose(0, 1);
    return indices.expand(sizes);
  }

  std::mt19937 random_;
};

TEST(Gather, HasTheSameOutcomeForRandomCalls) {
  int selections = 0;
  int errors = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const Case one = RandomCase(seed).make();
    const Outcome outcome = expect_same_with_rewrite(one);
    selections += is_row_selection(outcome) ? 1 : 0;
    errors += outcome.error.empty() ? 0 : 1;
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  // The cases are of every kind.
  EXPECT_GT(selections, 200);
  EXPECT_GT(errors, 100);
}

TEST(Gather, SeesThroughTorchScript) {
  torch::jit::getExecutorMode() = true;
  torch::jit::getProfilingMode() = false;
  const auto unit = torch::jit::compile(R"(
def keep(x, index):
    return torch.gather(x, 1, index)
)");
  const Gather scripted = [&](const Case& one, const at::Tensor& source) {
    return unit->run_method("keep", source, one.index).toTensor();
  };
  // The same compiled function before, with and after the rewrite.
  EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(patch_dropout(), scripted)));
  EXPECT_FALSE(is_row_selection(outcome_of(patch_dropout(), scripted)));
}

TEST(Gather, WorksWithoutGradients) {
  const Case one = patch_dropout();
  const at::Tensor expected = at::gather(one.source, one.dim, one.index);
  const auto rewrite = rewrite_gather();
  const at::Tensor plain = at::gather(one.source, one.dim, one.index);
  EXPECT_TRUE(is_bitwise_equal(plain, expected));
  EXPECT_FALSE(plain.requires_grad());
  const at::Tensor source = one.source.detach().requires_grad_(true);
  {
    const at::NoGradGuard no_grad;
    const at::Tensor value = at::gather(source, one.dim, one.index);
    EXPECT_TRUE(is_bitwise_equal(value, expected));
    EXPECT_FALSE(value.requires_grad());
  }
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(is_bitwise_equal(at::gather(source, one.dim, one.index), expected));
  }
  at::Tensor into = at::empty({0});
  EXPECT_TRUE(is_bitwise_equal(at::gather_out(into, one.source, one.dim, one.index), expected));
}

TEST(Gather, NoticesAnIndexThatWasOverwritten) {
  Case one = patch_dropout();
  const auto backward = [&] {
    at::Tensor kept = one.index.select(2, 0).contiguous();
    const at::Tensor source = one.source.detach().requires_grad_(true);
    const at::Tensor value = at::gather(source, one.dim, expanded(kept, 48));
    kept.zero_();
    value.sum().backward();
  };
  EXPECT_THROW(backward(), c10::Error);
  const auto rewrite = rewrite_gather();
  EXPECT_THROW(backward(), c10::Error);
}

TEST(Gather, IsTheSameUnderDeterministicAlgorithms) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(patch_dropout())));
  Case one = patch_dropout();
  one.index = expanded(at::randint(12, {5, 200}), 48);
  EXPECT_TRUE(is_row_selection(expect_same_with_rewrite(one)));
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

TEST(Gather, IsLibTorchsAgainWhenTheLastHolderLetsGo) {
  const Case one = patch_dropout();
  auto first = rewrite_gather();
  auto second = rewrite_gather();
  EXPECT_EQ(first, second);
  first.reset();
  const at::Tensor source = one.source.detach().requires_grad_(true);
  const at::Tensor value = at::gather(source, one.dim, one.index);
  EXPECT_TRUE(is_row_selection(outcome_of(one)));
  second.reset();
  EXPECT_FALSE(is_row_selection(outcome_of(one)));
  // What was made before the switch goes on.
  value.sum().backward();
  EXPECT_EQ(source.grad().sum().item<double>(), 5 * 6 * 48);
  const auto again = rewrite_gather();
  EXPECT_TRUE(is_row_selection(outcome_of(one)));
}

// The form for GPUs, on the CPU.
TEST(Gather, CountsRowsThroughForIndexSelect) {
  at::manual_seed(4);
  for (const at::Tensor& source :
       {at::randn({5, 12, 48}), at::randn({5, 13, 48}).slice(1, 1),
        at::randn({5, 48, 12}).transpose(1, 2), at::randn({1, 12, 48}).expand({5, -1, -1}),
        at::randn({5, 1, 48}).expand({5, 12, 48})}) {
    const at::Tensor index = expanded(at::randint(12, {5, 30}), 48);
    const auto selection = row_selection(source.sizes(), 1, index);
    ASSERT_TRUE(selection.has_value());
    EXPECT_TRUE(is_bitwise_equal(index_rows(source, *selection, index.sizes()),
                                 at::gather(source, 1, index)));
    const at::Tensor gradient = at::randn(index.sizes());
    EXPECT_TRUE(is_bitwise_equal(index_add_rows(gradient, *selection, source.sizes()),
                                 at::zeros(source.sizes()).scatter_add(1, index, gradient)));
  }
  for (const std::int64_t invalid : {-1, 12}) {
    const at::Tensor source = at::randn({5, 12, 48});
    const at::Tensor index = at::full({5, 1, 1}, invalid).expand({5, 1, 48});
    const auto selection = row_selection(source.sizes(), 1, index);
    ASSERT_TRUE(selection.has_value());
    EXPECT_FALSE(has_valid_indices(*selection));
    EXPECT_THROW((void)index_rows(source, *selection, index.sizes()), c10::Error);
  }
}

}  // namespace
}  // namespace autotuned::trainer
