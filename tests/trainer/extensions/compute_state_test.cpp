// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/compute_state.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace autotuned::trainer {
namespace {

using Of = ComputeState::Of;

std::string difference(const ComputeState& before, Of of = Of::all) {
  return ComputeState::now().difference(before, of);
}

std::unique_ptr<at::ObserverContext> nothing(const at::RecordFunction& /*function*/) {
  return nullptr;
}

TEST(ComputeState, IsTheSameWhereNothingHasChanged) {
  EXPECT_EQ(difference(ComputeState::now()), "");
}

TEST(ComputeState, HasWhatTheThreadChooses) {
  const ComputeState before = ComputeState::now();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_EQ(difference(before, Of::thread), "changes autocast of the CPU from off to on (bf16)");
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  EXPECT_EQ(difference(before, Of::thread), "changes autocast of the GPU from off to on (fp16)");
  at::autocast::set_autocast_enabled(at::kCUDA, false);
  EXPECT_EQ(difference(before), "");
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(difference(before, Of::thread), "changes the recording of gradients from on to off");
  }
  {
    const c10::InferenceMode inference;
    EXPECT_EQ(difference(before, Of::thread), "changes inference mode from off to on");
  }
  {
    const c10::impl::ExcludeDispatchKeyGuard excluded(c10::DispatchKey::AutogradCPU);
    EXPECT_EQ(difference(before, Of::thread), "changes the dispatch keys of the thread");
  }
  EXPECT_EQ(difference(before), "");
}

// The type does not count while autocast is off: who turns it on chooses one.
TEST(ComputeState, HasTheTypeOfAutocastOnlyWhereItIsOn) {
  const at::ScalarType type = at::autocast::get_autocast_dtype(at::kCPU);
  const ComputeState before = ComputeState::now();
  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  EXPECT_EQ(difference(before), "");
  at::autocast::set_autocast_dtype(at::kCPU, type);
}

TEST(ComputeState, HasCallbacksOfOperators) {
  const ComputeState before = ComputeState::now();
  for (const bool is_global : {true, false}) {
    const auto add = is_global ? at::addGlobalCallback : at::addThreadLocalCallback;
    const at::CallbackHandle first = add(at::RecordFunctionCallback(nothing));
    EXPECT_EQ(difference(before, Of::thread), "changes the callbacks of operators");
    // As beside a trace of the trainer.
    const ComputeState with_first = ComputeState::now();
    const at::CallbackHandle second = add(at::RecordFunctionCallback(nothing));
    EXPECT_EQ(difference(with_first, Of::thread), "changes the callbacks of operators");
    at::removeCallback(second);
    EXPECT_EQ(difference(with_first), "");
    at::removeCallback(first);
    EXPECT_EQ(difference(before), "");
  }
}

TEST(ComputeState, HasWhatTheProcessChooses) {
  const ComputeState before = ComputeState::now();
  at::Context& context = at::globalContext();
  const int threads = at::get_num_threads();
  at::set_num_threads(threads + 1);
  EXPECT_EQ(difference(before), "changes the number of intra-op threads from " +
                                    std::to_string(threads) + " to " + std::to_string(threads + 1));
  EXPECT_EQ(difference(before, Of::thread), "");
  at::set_num_threads(threads);
  context.setUserEnabledMkldnn(false);
  EXPECT_EQ(difference(before), "changes oneDNN from on to off");
  context.setUserEnabledMkldnn(true);
  context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL,
                              at::Float32Precision::BF16);
  EXPECT_EQ(difference(before),
            "changes the precision of matrix products on the CPU from fp32 to bf16");
  context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL,
                              at::Float32Precision::NONE);
  EXPECT_EQ(difference(before), "");
#ifdef __SSE__
  ASSERT_TRUE(at::Context::setFlushDenormal(true));
  EXPECT_EQ(difference(before),
            "changes how denormal numbers are handled, or how results are rounded");
  at::Context::setFlushDenormal(false);
  EXPECT_EQ(difference(before), "");
#endif
}

TEST(ComputeState, TakesChangesOfWhatIsAsBefore) {
  ComputeState expected = ComputeState::now();
  const ComputeState before = expected;
  at::GradMode::set_enabled(false);
  const ComputeState after = ComputeState::now();
  EXPECT_NE(difference(expected), "");
  expected.take_change(before, after);
  EXPECT_EQ(difference(expected), "");
  at::GradMode::set_enabled(true);
  ComputeState other = before;
  other.take_change(after, ComputeState::now());  // it was not off in this
  EXPECT_EQ(difference(other), "");
}

// It is taken several times in a step.
TEST(ComputeState, TakesLittleTime) {
  constexpr int kTimes = 1000;
  std::string did;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i)
    did += difference(ComputeState::now());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(did, "");
  EXPECT_LT(took.count() / kTimes, 1e-3) << "far more than it takes on a busy machine";
}

}  // namespace
}  // namespace autotuned::trainer
