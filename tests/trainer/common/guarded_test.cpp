// SPDX-License-Identifier: Apache-2.0
// What LibTorch's errors mean, by their texts.
#include "trainer/common/guarded.hpp"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/common/plugin_call.hpp"

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

// TorchScript's interpreter throws std::runtime_error whatever was thrown in it, and says first where in the model.
TEST(Guarded, KnowsWhatWasThrownInTorchScript) {
  torch::jit::Module model("Fails");
  model.define(
      "def needs_memory(self, x):\n"
      "    return torch.zeros([x.size(0) * 1125899906842624])\n"
      "def has_other_shapes(self, x):\n"
      "    return torch.mm(x, x)\n");
  const auto error_in = [&](const char* method) {
    const auto result = guarded("here", [&]() -> Result<void> {
      (void)model.run_method(method, at::ones({2, 3}));
      return {};
    });
    return result ? Error{} : result.error();
  };
  const Error memory = error_in("needs_memory");
  EXPECT_EQ(memory.kind, ErrorKind::out_of_memory) << memory.what;
  EXPECT_THAT(memory.what, HasSubstr("can't allocate memory"));
  const Error shapes = error_in("has_other_shapes");
  EXPECT_EQ(shapes.kind, ErrorKind::internal);
  EXPECT_THAT(shapes.what, testing::StartsWith("mat1 and mat2 shapes cannot be multiplied"));
  EXPECT_EQ(shapes.where, "here");
}

TEST(Guarded, BelievesLibTorchAloneThatMemoryIsMissing) {
  const auto other = guarded("here", []() -> Result<void> {
    throw std::runtime_error("the shelf is out of memory sticks");
  });
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::internal);
}

TEST(Guarded, GivesOtherErrorsTheirPlace) {
  const Error error = error_of("expected a tensor\nand more");
  EXPECT_EQ(error.kind, ErrorKind::internal);
  EXPECT_EQ(error.what, "expected a tensor");
  EXPECT_EQ(error.where, "here");
  const auto bare = guarded("here", []() -> Result<void> { throw std::runtime_error("odd"); });
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().what, "odd");
  EXPECT_TRUE(bare.error().extensions.empty());
}

TEST(Guarded, NamesTheExtensionsAndNoOtherPlugins) {
  const auto extensions_of = [](const PluginError& thrown) {
    const auto result = guarded("here", [&]() -> Result<void> { throw PluginError(thrown); });
    return result ? std::vector<std::string>{"none"} : result.error().extensions;
  };
  EXPECT_THAT(extensions_of(PluginError("plugin mine: it cheats", {"mine"})),
              testing::ElementsAre("mine"));
  EXPECT_THAT(extensions_of(PluginError("plugin tiny: forward: odd")), testing::IsEmpty());
}

TEST(Guarded, KeepsWhyAnExtensionIsNamed) {
  for (const ExtensionFault fault :
       {ExtensionFault::failed, ExtensionFault::suspected, ExtensionFault::trained_otherwise}) {
    const auto result = guarded("here", [&]() -> Result<void> {
      throw PluginError("plugin mine: it cheats", {"mine"}, fault);
    });
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().extension_fault, fault) << to_string(fault);
  }
}

// The error of an extension's function that does this.
template <class Work>
Error error_of_hook(Work&& work, const std::vector<std::string>& extensions = {"mine"}) {
  const auto result = guarded("here", [&]() -> Result<void> {
    plugin_call("plugin mine", "on_batch", work, extensions);
    return {};
  });
  return result ? Error{} : result.error();
}

void lack_memory() {
  throw std::bad_alloc();
}

TEST(PluginCall, NamesTheExtensionThatLacksMemory) {
  const auto of_libtorch = [] { TORCH_CHECK(false, "CUDA out of memory. Tried to allocate"); };
  const Error allocator = error_of_hook(lack_memory);
  EXPECT_EQ(allocator.kind, ErrorKind::out_of_memory);
  EXPECT_EQ(allocator.message(), "here: plugin mine: on_batch: no memory left");
  EXPECT_THAT(allocator.extensions, testing::ElementsAre("mine"));
  const Error device = error_of_hook(of_libtorch);
  EXPECT_EQ(device.kind, ErrorKind::out_of_memory);
  EXPECT_THAT(device.what, testing::StartsWith("plugin mine: on_batch: CUDA out of memory."));
  EXPECT_THAT(device.extensions, testing::ElementsAre("mine"));
  const Error other = error_of_hook([] { throw std::runtime_error("odd"); });
  EXPECT_EQ(other.kind, ErrorKind::internal);
  EXPECT_EQ(other.what, "plugin mine: on_batch: odd");
}

TEST(PluginCall, BlamesNoExtensionForTheMemoryOfTheModel) {
  const Error model = error_of_hook([] { call_from_plugin(lack_memory); });
  EXPECT_EQ(model.kind, ErrorKind::out_of_memory);
  EXPECT_EQ(model.message(), "here: no memory left");
  EXPECT_THAT(model.extensions, testing::IsEmpty());
  const Error workload = error_of_hook(lack_memory, {});
  EXPECT_EQ(workload.kind, ErrorKind::out_of_memory);
  EXPECT_EQ(workload.message(), "here: no memory left");
}

TEST(PluginResult, KeepsTheLackOfMemory) {
  const auto made =
      plugin_result(ErrorKind::invalid, "plugin mine", "apply", lack_memory, {"mine"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::out_of_memory);
  EXPECT_EQ(made.error().message(), "plugin mine: apply: no memory left");
  EXPECT_THAT(made.error().extensions, testing::ElementsAre("mine"));
}

}  // namespace
}  // namespace autotuned::trainer
