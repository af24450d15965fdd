// SPDX-License-Identifier: Apache-2.0
// Replaces an operator of LibTorch by code of an extension, for as long as an object lives. Native and TorchScript
// models both call the replacement, and the extension need not know the model. docs/plugin-guide.md shows one.
//
//   void apply(const KnobValues&, torch::nn::Module&) override {
//     relu_ = replace_values<at::Tensor(const at::Tensor&)>(
//         "aten::relu", [](const auto& pytorch, const at::Tensor& input) {
//           if (!is_mine(input)) return pytorch(input);  // PyTorch's own kernel
//           return my_relu(input);
//         });
//   }
//   void undo(torch::nn::Module&) override { relu_.reset(); }
//   ReplacedOperator relu_;
//
// The signature is that of LibTorch (ATen/ops/relu.h), with symbolic integers where it has them; operators that write
// into their arguments cannot be replaced. Begin and end it in apply() and undo(), so between steps: no operator may
// run meanwhile. If an operator is replaced twice, the later replacement gets the calls, and its PyTorch kernel is the
// earlier one; it must be removed first.
#pragma once

#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace autotuned::sdk {

template <class Signature>
class PytorchKernel;

// PyTorch's own kernel of the operator, to be called with the arguments of the call or with others.
template <class Return, class... Arguments>
class PytorchKernel<Return(Arguments...)> {
 public:
  PytorchKernel(const c10::OperatorHandle& handle, const c10::SafeKernelFunction& kernel,
                c10::DispatchKeySet keys)
      : handle_(handle), kernel_(kernel), keys_(keys) {}

  Return operator()(Arguments... arguments) const {
    auto stack = c10::impl::boxArgs<Arguments...>(std::forward<Arguments>(arguments)...);
    kernel_.callBoxed(handle_, keys_, &stack);
    return c10::impl::PopResult<Return>::call(stack);
  }

 private:
  const c10::OperatorHandle& handle_;
  const c10::SafeKernelFunction& kernel_;
  c10::DispatchKeySet keys_;
};

// Keeps an operator replaced for as long as it lives. Without a value it replaces nothing.
class ReplacedOperator {
 public:
  ReplacedOperator() = default;
  explicit ReplacedOperator(std::vector<std::unique_ptr<torch::Library>> libraries)
      : libraries_(std::move(libraries)) {}

  // Ends the replacement: PyTorch's own kernel is called again.
  void reset() { libraries_.clear(); }
  [[nodiscard]] explicit operator bool() const { return !libraries_.empty(); }

 private:
  std::vector<std::unique_ptr<torch::Library>> libraries_;  // each goes with what it registered
};

namespace detail {

// Whether a result of these arguments needs a gradient: one of them requires it.
template <class Argument>
bool wants_gradient(const Argument& argument) {
  if constexpr (std::is_same_v<Argument, at::Tensor>) {
    return argument.defined() && argument.requires_grad();
  } else if constexpr (std::is_same_v<Argument, std::optional<at::Tensor>>) {
    return argument && wants_gradient(*argument);
  } else if constexpr (std::is_convertible_v<const Argument&, at::TensorList>) {
    for (const at::Tensor& one : at::TensorList(argument))
      if (wants_gradient(one)) return true;
  }
  return false;
}

template <class Signature, class Work>
class Replacement;

template <class Return, class... Arguments, class Work>
class Replacement<Return(Arguments...), Work> {
 public:
  Replacement(std::string name, const c10::OperatorHandle& handle, c10::DispatchKey key,
              bool has_gradient, Work work)
      : name_(std::move(name)),
        handle_(handle),
        original_(handle.getComputedKernelForDispatchKey(key)),  // so before it is registered
        has_gradient_(has_gradient),
        work_(std::move(work)) {}

  Return operator()(c10::DispatchKeySet keys, Arguments... arguments) const {
    const PytorchKernel<Return(Arguments...)> pytorch(handle_, original_, keys);
    if constexpr (std::is_same_v<Return, at::Tensor>) {
      const bool is_wanted =
          has_gradient_ && at::GradMode::is_enabled() && (wants_gradient(arguments) || ...);
      Return result = work_(pytorch, std::forward<Arguments>(arguments)...);
      if (is_wanted && result.defined() && !result.requires_grad() &&
          (at::isFloatingType(result.scalar_type()) || at::isComplexType(result.scalar_type()))) {
        throw std::logic_error(
            name_ +
            ": what replaces it gives no gradient, so that nothing before it would be "
            "trained: use torch::autograd::Function, or replace_values()");
      }
      return result;
    } else {
      return work_(pytorch, std::forward<Arguments>(arguments)...);
    }
  }

 private:
  std::string name_;
  c10::OperatorHandle handle_;
  c10::SafeKernelFunction original_;
  bool has_gradient_;
  Work work_;
};

// LibTorch warns once per process when a kernel takes the place of another, which is what is wanted here.
class NoWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

template <class Signature, class Work>
ReplacedOperator replace(const std::string& name, bool has_gradient,
                         const std::vector<c10::DispatchKey>& keys, const Work& work) {
  const std::size_t colons = name.find("::");
  const std::size_t point = name.find('.');
  if (colons == std::string::npos) {
    throw std::invalid_argument(name +
                                ": an operator's name begins with its library, as in aten::relu");
  }
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, point), point == std::string::npos ? "" : name.substr(point + 1)});
  if (!handle) throw std::invalid_argument(name + ": LibTorch has no such operator");
  if (!has_gradient &&
      handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    throw std::invalid_argument(
        name +
        ": is made of other operators, whose derivatives PyTorch uses: replace one of those, or "
        "use replace_with_gradient()");
  }
  NoWarnings silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  std::vector<std::unique_ptr<torch::Library>> libraries;
  for (const c10::DispatchKey key : keys) {
    if (!handle->hasComputedKernelForDispatchKey(key)) continue;
    try {
      Replacement<Signature, Work> replacement(name, *handle, key, has_gradient, work);
      auto library = std::make_unique<torch::Library>(torch::Library::IMPL, name.substr(0, colons),
                                                      key, __FILE__, __LINE__);
      library->impl(name.substr(colons + 2).c_str(), std::move(replacement));
      libraries.push_back(std::move(library));
    } catch (const c10::Error&) {
      std::ostringstream schema;
      schema << handle->schema();
      throw std::invalid_argument(
          name + ": cannot be replaced by a function of this signature, it is " + schema.str());
    }
  }
  if (libraries.empty()) throw std::invalid_argument(name + ": has no kernel here");
  return ReplacedOperator(std::move(libraries));
}

}  // namespace detail

// Replaces what the operator computes and leaves its derivative to PyTorch, which goes by its formula for
// the operator: values must be those of the operator, up to rounding. `work` is called with PyTorch's own
// kernel and the arguments, on the CPU and on a GPU, and records nothing for autograd. Its backward pass is
// an operator of its own (aten::threshold_backward for relu), which can be replaced as well.
//
// Throws std::invalid_argument that names the operator: unknown, another signature, or made of others
// (aten::linear), which has no derivative of its own.
template <class Signature, class Work>
[[nodiscard]] ReplacedOperator replace_values(const std::string& name, Work work) {
  return detail::replace<Signature>(name, false, {c10::DispatchKey::CPU, c10::DispatchKey::CUDA},
                                    work);
}

// Replaces the operator and its derivative. If an argument requires a gradient, the result of `work` must be
// differentiable: made by differentiable operators, PyTorch's own kernel, or a torch::autograd::Function. A call with
// another result throws. Second derivatives need a backward that is differentiable, too.
template <class Signature, class Work>
[[nodiscard]] ReplacedOperator replace_with_gradient(const std::string& name, Work work) {
  return detail::replace<Signature>(
      name, true, {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}, work);
}

}  // namespace autotuned::sdk
