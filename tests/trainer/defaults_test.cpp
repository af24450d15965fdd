// SPDX-License-Identifier: Apache-2.0
// The defaults of knobs against those of the LibTorch that is linked. In a process of its own, where nothing has been set.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/machine/machine.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::trainer {
namespace {

KnobValue default_of(const std::string& knob) {
  return recipes::find_knob(recipes::knobs_of(detect_machine()), knob)->default_value;
}

TEST(Defaults, AreThoseOfLibTorch) {
  at::Context& context = at::globalContext();
  EXPECT_EQ(default_of("cudnn.benchmark"), KnobValue(context.benchmarkCuDNN()));
  EXPECT_EQ(default_of("precision.tf32"), KnobValue(context.allowTF32CuBLAS()));
  EXPECT_TRUE(context.allowTF32CuDNN()) << "convolutions";
}

TEST(Defaults, AreAsManyThreadsAsLibTorchHas) {
  for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT"}) {
    if (std::getenv(variable) != nullptr) GTEST_SKIP() << variable << " is set";
  }
  EXPECT_EQ(default_of("threads.intra_op"), KnobValue(std::int64_t{at::get_num_threads()}));
}

}  // namespace
}  // namespace autotuned::trainer
