// SPDX-License-Identifier: Apache-2.0
// What LibTorch's errors mean, by their texts.
#include "trainer/common/guarded.hpp"

#include <gmock/gmock.h>

#include <stdexcept>

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

Error error_of(const char* text) {
  const auto result = guarded("here", [&]() -> Result<void> {
    TORCH_CHECK(text == nullptr, text);
    return {};
  });
  return result ? Error{} : result.error();
}

TEST(Guarded, KnowsMissingMemoryByItsManyNames) {
  for (const char* const text :
       {"CUDA out of memory. Tried to allocate 2.00 GiB.",
        "CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA`",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "GET was unable to find an engine to execute this computation",
        "FIND was unable to find an engine to execute this computation",
        "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"}) {
    EXPECT_EQ(error_of(text).kind, ErrorKind::out_of_memory) << text;
  }
  EXPECT_EQ(error_of("CUDA error: an illegal memory access was encountered").kind,
            ErrorKind::internal);
  EXPECT_EQ(error_of("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED").kind, ErrorKind::internal);
}

TEST(Guarded, KnowsAGpuThatAnotherProcessHas) {
  const Error error =
      error_of("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nSearch for ...");
  EXPECT_EQ(error.kind, ErrorKind::busy);
  EXPECT_EQ(error.what, "CUDA error: CUDA-capable device(s) is/are busy or unavailable");
  EXPECT_THAT(error.remedy, HasSubstr("nvidia-smi -c DEFAULT"));
}

TEST(Guarded, GivesOtherErrorsTheirPlace) {
  const Error error = error_of("expected a tensor\nand more");
  EXPECT_EQ(error.kind, ErrorKind::internal);
  EXPECT_EQ(error.what, "expected a tensor");
  EXPECT_EQ(error.where, "here");
  const auto bare = guarded("here", []() -> Result<void> { throw std::runtime_error("odd"); });
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().what, "odd");
}

}  // namespace
}  // namespace autotuned::trainer
