// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/gather.hpp"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <mutex>
#include <utility>
#include <vector>

#include "trainer/step/gather_rows.hpp"

namespace autotuned::trainer {
namespace {

using c10::DispatchKey;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Numbers in memory, one after the other along the strides: nothing lazy, wrapped or on another device.
bool is_plain(const at::Tensor& tensor) {
  return (tensor.is_cpu() || tensor.is_cuda()) && tensor.layout() == at::kStrided &&
         !tensor.is_neg() && !tensor.is_conj() && !tensor._is_zerotensor() &&
         !at::isTensorSubclassLike(tensor);
}

bool is_floating(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

at::Tensor selected_rows(const at::Tensor& source, const RowSelection& selection,
                         at::IntArrayRef index_sizes) {
  return source.is_cpu() ? copy_rows(source, selection, index_sizes)
                         : index_rows(source, selection, index_sizes);
}

struct GatherRows : torch::autograd::Function<GatherRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& source, std::int64_t dim,
                            const at::Tensor& index, const RowSelection& selection) {
    // Like gather, so that an index that is overwritten before the backward pass is noticed.
    context->save_for_backward({index});
    context->saved_data["dim"] = dim;
    context->saved_data["sizes"] = source.sizes();
    context->set_materialize_grads(false);
    return selected_rows(source, selection, index.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor& gradient = gradients[0];
    at::Tensor result;
    if (gradient.defined()) {
      const at::Tensor index = context->get_saved_variables()[0];
      const auto sizes = context->saved_data["sizes"].toIntVector();
      result = gradient_of(gradient, context->saved_data["dim"].toInt(), index, sizes);
    }
    return {result, at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  static at::Tensor gradient_of(const at::Tensor& gradient, std::int64_t dim,
                                const at::Tensor& index, const std::vector<std::int64_t>& sizes) {
    const auto selection = row_selection(sizes, dim, index);
    // Second derivatives use LibTorch's operators, which have derivatives of their own.
    if (at::GradMode::is_enabled() || !is_plain(gradient) || !selection) {
      return gradient.new_zeros(sizes).scatter_add(dim, index, gradient);
    }
    return gradient.is_cpu() ? add_rows(gradient, *selection, sizes)
                             : index_add_rows(gradient, *selection, sizes);
  }
};

// In the place of LibTorch's autograd kernel for one device.
class Kernel {
 public:
  Kernel(const c10::OperatorHandle& gather, DispatchKey key)
      : gather_(gather), original_(gather.getComputedKernelForDispatchKey(key)) {}

  at::Tensor operator()(c10::DispatchKeySet keys, const at::Tensor& source, std::int64_t dim,
                        const at::Tensor& index, bool sparse_grad) const {
    if (!sparse_grad && is_floating(source) && is_plain(source) &&
        index.scalar_type() == at::kLong && is_plain(index) && index.device() == source.device() &&
        !source._fw_grad(/*level=*/0).defined()) {
      const auto selection = row_selection(source.sizes(), dim, index);
      if (selection && (!source.is_cpu() || has_valid_indices(*selection))) {
        return GatherRows::apply(source, dim, index, *selection);
      }
    }
    torch::jit::Stack stack{source, dim, index, sparse_grad};
    original_.callBoxed(gather_, keys, &stack);
    return stack.back().toTensor();
  }

 private:
  c10::OperatorHandle gather_;
  c10::SafeKernelFunction original_;
};

class Rewrite {
 public:
  Rewrite() {
    const auto gather = c10::Dispatcher::singleton().findSchemaOrThrow("aten::gather", "");
    for (const DispatchKey key : {DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA}) {
      Kernel kernel(gather, key);  // asks for the original, so before it is registered
      auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", key, __FILE__,
                                                      static_cast<std::uint32_t>(__LINE__));
      library->impl("gather", std::move(kernel));
      libraries_.push_back(std::move(library));
    }
  }

 private:
  std::vector<std::unique_ptr<torch::Library>> libraries_;  // each goes with what it registered
};

}  // namespace

std::shared_ptr<const void> rewrite_gather() {
  // Two rewrites at once would each take the other for the original.
  static std::mutex mutex;
  static std::weak_ptr<Rewrite> current;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<Rewrite> rewrite = current.lock();
  if (rewrite == nullptr) {
    rewrite = std::make_shared<Rewrite>();
    current = rewrite;
  }
  return rewrite;
}

}  // namespace autotuned::trainer
