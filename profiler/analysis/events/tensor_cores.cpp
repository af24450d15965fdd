// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/tensor_cores.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace autotuned::analysis {
namespace {

// In lower case. These have priority over the others: matrix products in 32 bits on ordinary cores.
constexpr std::array<std::string_view, 3> kOrdinary = {"simt", "_ffma", "sgemm_"};

// The names of PyTorch's profiler plugin (Volta, Turing, Ampere), then those of Hopper and Blackwell.
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

// CUTLASS 3 and later has no other main loops for these.
constexpr std::array<std::string_view, 5> kTensorOnly = {"sm90", "sm100", "sm103", "sm120",
                                                         "sm121"};

// Programs compile their own kernels with Triton, and name them with plain words. The libraries of NVIDIA and AMD use plain words, too, but
// these begin as listed here.
constexpr std::array<std::string_view, 17> kLibraries = {
    "volta_", "turing_", "ampere_", "hopper_", "maxwell_", "pascal_", "kepler_", "sm50_", "sm52_",
    "sm60_",  "sm70_",   "sm75_",   "cudnn",   "cublas",   "cufft",   "nccl",    "rccl"};

template <std::size_t count>
bool has_any(const std::string& name, const std::array<std::string_view, count>& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

// PyTorch's attention, from CUTLASS 2: on ordinary cores if the GPU has no tensor cores for the type.
bool is_ordinary_attention(const std::string& name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  return has("fmha_cutlass") && (has("_sm50") || (has("_f32_") && (has("_sm70") || has("_sm75"))));
}

// A name that is neither a template nor in a namespace, and has no parameters.
bool is_plain_word(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

}  // namespace

TensorCores tensor_cores_of(std::string_view kernel) {
  std::string name(kernel);
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (has_any(name, kOrdinary) || is_ordinary_attention(name)) return TensorCores::no;
  if (has_any(name, kTensor)) return TensorCores::yes;
  if (name.find("cutlass") != std::string::npos) {
    return has_any(name, kTensorOnly) ? TensorCores::yes : TensorCores::unknown;
  }
  const bool is_of_library = std::ranges::any_of(
      kLibraries, [&](std::string_view word) { return name.starts_with(word); });
  return is_plain_word(name) && !is_of_library ? TensorCores::unknown : TensorCores::no;
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
