// SPDX-License-Identifier: Apache-2.0
#include "recipes/environment_variables.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace autotuned::recipes {
namespace {

constexpr std::size_t kMaxCharacters = 100;

// Variables that tune OpenMP, MKL, oneDNN, an allocator or CUDA and can neither load code, write a file, nor choose a device. No
// program reads PLACEBO_...: verdicts are tested with changes that have no effect.
constexpr auto kForPlugins = std::to_array<std::string_view>({
    "CUBLASLT_WORKSPACE_SIZE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING",
    "DNNL_MAX_CPU_ISA",
    "DNNL_PRIMITIVE_CACHE_CAPACITY",
    "GLIBC_TUNABLES",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MKL_DYNAMIC",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_SCHEDULE",
    "OMP_WAIT_POLICY",
    "ONEDNN_MAX_CPU_ISA",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
    "PLACEBO_*",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TCMALLOC_AGGRESSIVE_DECOMMIT",
    "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
    "TCMALLOC_RELEASE_RATE",
    "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT",
});

using Names = std::initializer_list<std::string_view>;

bool is_any_of(const Names& names, const auto& fits) {
  return std::ranges::any_of(names, fits);
}

// Variables by which a program loads code or finds the programs that it starts. A recipe is data and must not become code.
bool chooses_code(std::string_view variable) {
  return is_any_of({"PATH", "HOME", "ENV", "SHELL", "IFS"},
                   [&](std::string_view name) { return variable == name; }) ||
         is_any_of({"LD_", "PYTHON", "PERL", "BASH", "OPENSSL_", "KINETO_", "XDG_"},
                   [&](std::string_view start) { return variable.starts_with(start); }) ||
         is_any_of({"PRELOAD", "INJECTION", "PLUGIN", "NOTIFY", "PROFILER", "LIBRAR"},
                   [&](std::string_view part) { return variable.find(part) != variable.npos; }) ||
         is_any_of({"_PATH", "_FILE", "_DIR", "_LIB", "_ENV"},
                   [&](std::string_view end) { return variable.ends_with(end); });
}

// Variables by which this program finds and ends its processes, chooses their device, and tells them where to write files.
bool controls_trainers(std::string_view variable) {
  return variable.starts_with("AUTOTUNED_") || variable.find("LOGDEST") != variable.npos ||
         is_any_of(
             {"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "TMPDIR"},
             [&](std::string_view name) { return variable == name; });
}

}  // namespace

bool is_settable_variable(std::string_view variable) {
  return !variable.empty() && variable.size() <= kMaxCharacters && !chooses_code(variable) &&
         !controls_trainers(variable) && std::ranges::all_of(variable, [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
         });
}

bool is_variable_for_plugins(std::string_view variable) {
  return is_settable_variable(variable) &&
         std::ranges::any_of(kForPlugins, [&](std::string_view permitted) {
           return permitted.ends_with('*')
                      ? variable.starts_with(permitted.substr(0, permitted.size() - 1))
                      : variable == permitted;
         });
}

std::span<const std::string_view> variables_for_plugins() {
  return kForPlugins;
}

}  // namespace autotuned::recipes
