// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/compute_state.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace autotuned::trainer {
namespace {

using Of = ComputeState::Of;

// How a value is written.
enum class Text : std::uint8_t { flag, number, type, autocast, precision, none };

struct Part {
  const char* name;
  Of of;
  Text text;
  std::uint64_t (*read)();
};

// 0: off; else the type and one.
template <at::DeviceType Device>
std::uint64_t autocast() {
  if (!at::autocast::is_autocast_enabled(Device)) return 0;
  return 1 + static_cast<std::uint64_t>(at::autocast::get_autocast_dtype(Device));
}

std::uint64_t autocast_cache() {
  return at::autocast::is_autocast_cache_enabled() ? 1 : 0;
}

std::uint64_t grad_mode() {
  return at::GradMode::is_enabled() ? 1 : 0;
}

std::uint64_t inference_mode() {
  return c10::InferenceMode::is_enabled() ? 1 : 0;
}

// Of a callback as many as the kinds of code that it hears of. Those of the trainer itself count, too.
std::uint64_t active_callbacks() {
  std::uint64_t count = 0;
  for (std::uint8_t scope = 0; scope < static_cast<std::uint8_t>(at::RecordScope::NUM_SCOPES);
       ++scope) {
    const auto active = at::getStepCallbacksUnlessEmpty(static_cast<at::RecordScope>(scope));
    if (active) count += active->callbacks_.size();
  }
  return count;
}

// Some may wait until they are enabled.
std::uint64_t registered_callbacks() {
  return (at::hasGlobalCallbacks() ? 2U : 0U) + (at::hasThreadLocalCallbacks() ? 1U : 0U);
}

std::uint64_t hears_callbacks() {
  return at::isRecordFunctionEnabled() ? 1 : 0;
}

std::uint64_t saved_tensor_hooks() {
  const auto& state = at::SavedTensorDefaultHooks::get_tls_state();
  return state.stack.size() * 4 + (state.disabled_error_message ? 2U : 0U) +
         (state.is_tracing ? 1U : 0U);
}

std::uint64_t operator_modes() {
  return static_cast<std::uint64_t>(c10::impl::TorchDispatchModeTLS::stack_len()) * 256 +
         static_cast<std::uint64_t>(at::impl::PythonTorchFunctionTLS::stack_len());
}

// Guards of keys leave the bits of backends behind when they end, which choose nothing by themselves.
std::uint64_t without_backends(c10::DispatchKeySet keys) {
  return keys.raw_repr() & ~c10::full_backend_mask;
}

std::uint64_t included_keys() {
  return without_backends(c10::impl::tls_local_dispatch_key_set().included_);
}

std::uint64_t excluded_keys() {
  return without_backends(c10::impl::tls_local_dispatch_key_set().excluded_);
}

std::uint64_t default_type() {
  return static_cast<std::uint64_t>(c10::get_default_dtype_as_scalartype());
}

std::uint64_t intra_op_threads() {
  return static_cast<std::uint64_t>(at::get_num_threads());
}

std::uint64_t handling_of_denormals() {
#ifdef __SSE__
  constexpr unsigned int kBits = 0xE040;  // of results, of arguments, and how to round
  return _mm_getcsr() & kBits;
#else
  return 0;
#endif
}

template <bool (at::Context::*Flag)() const>
std::uint64_t flag() {
  return (at::globalContext().*Flag)() ? 1 : 0;
}

template <at::CuBLASReductionOption (at::Context::*Option)() const>
std::uint64_t reduction() {
  return static_cast<std::uint64_t>((at::globalContext().*Option)());
}

// What operators go by. The older questions, such as allowTF32CuBLAS(), throw where somebody has used the newer ones.
template <at::Float32Backend Backend, at::Float32Op Op>
std::uint64_t precision() {
  return static_cast<std::uint64_t>(at::globalContext().float32Precision(Backend, Op));
}

std::uint64_t linear_algebra() {
  return static_cast<std::uint64_t>(at::globalContext().linalgPreferredBackend());
}

using at::Context;
using Backend = at::Float32Backend;
using Op = at::Float32Op;

// The first that differs is told, so what stands for others comes before them: autocast is a dispatch key.
constexpr std::array<Part, ComputeState::kParts> kAll{{
    {"autocast of the CPU", Of::thread, Text::autocast, autocast<at::kCPU>},
    {"autocast of the GPU", Of::thread, Text::autocast, autocast<at::kCUDA>},
    {"the cache of autocast", Of::thread, Text::flag, autocast_cache},
    {"inference mode", Of::thread, Text::flag, inference_mode},
    {"the recording of gradients", Of::thread, Text::flag, grad_mode},
    {"whether callbacks of operators are called", Of::thread, Text::none, hears_callbacks},
    {"the callbacks of operators", Of::thread, Text::none, registered_callbacks},
    {"the callbacks of operators", Of::thread, Text::none, active_callbacks},
    {"the hooks of saved tensors", Of::thread, Text::none, saved_tensor_hooks},
    {"the modes of operators", Of::thread, Text::none, operator_modes},
    {"the dispatch keys of the thread", Of::thread, Text::none, included_keys},
    {"the dispatch keys of the thread", Of::thread, Text::none, excluded_keys},
    {"the number of intra-op threads", Of::all, Text::number, intra_op_threads},
    {"the default type of numbers", Of::all, Text::type, default_type},
    {"how denormal numbers are handled, or how results are rounded", Of::all, Text::none,
     handling_of_denormals},
    {"deterministic algorithms", Of::all, Text::flag, flag<&Context::deterministicAlgorithms>},
    {"deterministic cuDNN", Of::all, Text::flag, flag<&Context::deterministicCuDNN>},
    {"deterministic oneDNN", Of::all, Text::flag, flag<&Context::deterministicMkldnn>},
    {"benchmarks of cuDNN", Of::all, Text::flag, flag<&Context::benchmarkCuDNN>},
    {"cuDNN", Of::all, Text::flag, flag<&Context::userEnabledCuDNN>},
    {"oneDNN", Of::all, Text::flag, flag<&Context::userEnabledMkldnn>},
    {"NNPACK", Of::all, Text::flag, flag<&Context::userEnabledNNPACK>},
    {"flash attention", Of::all, Text::flag, flag<&Context::userEnabledFlashSDP>},
    {"memory-efficient attention", Of::all, Text::flag, flag<&Context::userEnabledMemEfficientSDP>},
    {"attention by single operators", Of::all, Text::flag, flag<&Context::userEnabledMathSDP>},
    {"attention by cuDNN", Of::all, Text::flag, flag<&Context::userEnabledCuDNNSDP>},
    {"16-bit sums of attention", Of::all, Text::flag,
     flag<&Context::allowFP16BF16ReductionMathSDP>},
    {"fp16 sums of the CPU", Of::all, Text::flag, flag<&Context::allowFP16ReductionCPU>},
    {"fp16 accumulation of cuBLAS", Of::all, Text::flag,
     flag<&Context::allowFP16AccumulationCuBLAS>},
    {"fp16 sums of cuBLAS", Of::all, Text::none, reduction<&Context::allowFP16ReductionCuBLAS>},
    {"bf16 sums of cuBLAS", Of::all, Text::none, reduction<&Context::allowBF16ReductionCuBLAS>},
    {"the library of linear algebra", Of::all, Text::none, linear_algebra},
    {"the precision of matrix products on the CPU", Of::all, Text::precision,
     precision<Backend::MKLDNN, Op::MATMUL>},
    {"the precision of convolutions on the CPU", Of::all, Text::precision,
     precision<Backend::MKLDNN, Op::CONV>},
    {"the precision of recurrent networks on the CPU", Of::all, Text::precision,
     precision<Backend::MKLDNN, Op::RNN>},
    {"the precision of matrix products on the GPU", Of::all, Text::precision,
     precision<Backend::CUDA, Op::MATMUL>},
    {"the precision of convolutions on the GPU", Of::all, Text::precision,
     precision<Backend::CUDA, Op::CONV>},
    {"the precision of recurrent networks on the GPU", Of::all, Text::precision,
     precision<Backend::CUDA, Op::RNN>},
    {"warnings instead of errors of deterministic algorithms", Of::all, Text::flag,
     flag<&Context::deterministicAlgorithmsWarnOnly>},
}};
static_assert(kAll.back().read != nullptr, "kParts is their number");

std::string name_of(std::uint64_t type) {
  const auto known = static_cast<at::ScalarType>(type);
  if (known == at::kBFloat16) return "bf16";
  if (known == at::kHalf) return "fp16";
  return c10::toString(known);
}

std::string name_of_precision(std::uint64_t precision) {
  switch (static_cast<at::Float32Precision>(precision)) {
    case at::Float32Precision::NONE:
    case at::Float32Precision::IEEE:
      return "fp32";
    case at::Float32Precision::TF32:
      return "tf32";
    case at::Float32Precision::BF16:
      return "bf16";
  }
  return "?";
}

std::string text_of(Text text, std::uint64_t value) {
  switch (text) {
    case Text::flag:
      return value != 0 ? "on" : "off";
    case Text::number:
      return std::to_string(value);
    case Text::type:
      return name_of(value);
    case Text::autocast:
      return value != 0 ? "on (" + name_of(value - 1) + ")" : "off";
    case Text::precision:
      return name_of_precision(value);
    case Text::none:
      break;
  }
  return {};
}

}  // namespace

ComputeState ComputeState::now() {
  ComputeState state;
  for (std::size_t i = 0; i < kParts; ++i)
    state.parts_[i] = kAll[i].read();
  return state;
}

void ComputeState::take_change(const ComputeState& from, const ComputeState& to) {
  for (std::size_t i = 0; i < kParts; ++i)
    if (parts_[i] == from.parts_[i]) parts_[i] = to.parts_[i];
}

std::string ComputeState::difference(const ComputeState& before, Of of) const {
  for (std::size_t i = 0; i < kParts; ++i) {
    const Part& part = kAll[i];
    if (parts_[i] == before.parts_[i] || (of == Of::thread && part.of != Of::thread)) continue;
    std::string did = std::string("changes ") + part.name;
    if (part.text == Text::none) return did;
    const std::string was = text_of(part.text, before.parts_[i]);
    const std::string is = text_of(part.text, parts_[i]);
    return did + (was != is ? " from " + was + " to " + is : "");
  }
  return {};
}

}  // namespace autotuned::trainer
