// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/tensor_cores.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace autotuned::analysis {
namespace {

// Lower case. These win over the others: matrix products in 32 bit on ordinary cores.
constexpr std::array<std::string_view, 3> kOrdinary = {"simt", "_ffma", "sgemm_"};

// Those of PyTorch's profiler plugin (Volta, Turing, Ampere), then Hopper and Blackwell.
constexpr std::array<std::string_view, 32> kTensor = {"h884",
                                                      "s884",
                                                      "h1688",
                                                      "s1688",
                                                      "c1688",
                                                      "hmma",
                                                      "i8816",
                                                      "16816",
                                                      "dgrad_1x1_stride_2x2",
                                                      "first_layer_wgrad_kernel",
                                                      "conv1x1",
                                                      "conv2d_c1_k1",
                                                      "direct_group",
                                                      "xmma_implicit_gemm",
                                                      "xmma_sparse_conv",
                                                      "xmma_warp_specialized_implicit_gemm",
                                                      "xmma_gemm",
                                                      "xmma_sparse_gemm",
                                                      "nvjet",
                                                      "xmma",
                                                      "imma",
                                                      "gmma",
                                                      "mma_sync",
                                                      "tensorop",
                                                      "i16832",
                                                      "flash_fwd",
                                                      "flash_bwd",
                                                      "flashattn",
                                                      "fmha",
                                                      "sdpa_sm",
                                                      "cutlass_80_tensorop",
                                                      "tcgen05"};

// Compiled for one program: Triton's, TorchInductor's, NVRTC's.
constexpr std::array<std::string_view, 3> kGenerated = {"triton_", "triton__", "cutlass"};

template <std::size_t count>
bool has_any(const std::string& name, const std::array<std::string_view, count>& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

}  // namespace

TensorCores tensor_cores_of(std::string_view kernel) {
  std::string name(kernel);
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (has_any(name, kOrdinary)) return TensorCores::no;
  if (has_any(name, kTensor)) return TensorCores::yes;
  return has_any(name, kGenerated) ? TensorCores::unknown : TensorCores::no;
}

const char* to_string(TensorCores use) {
  switch (use) {
    case TensorCores::no:
      return "no";
    case TensorCores::yes:
      return "yes";
    case TensorCores::unknown:
      return "unknown";
  }
  return "";
}

}  // namespace autotuned::analysis
