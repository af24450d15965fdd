// SPDX-License-Identifier: Apache-2.0
#include "profiler/operators.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>

namespace autotuned::profiler {

namespace {

// The figures may come from a trainer that counts wrongly.
std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::vector<OperatorTotal> by_name(const std::vector<OperatorTotal>& operators, std::size_t limit) {
  std::map<std::string_view, OperatorTotal> sums;
  for (const OperatorTotal& one : operators) {
    OperatorTotal& sum = sums[one.name];
    sum.calls = sum_of(sum.calls, one.calls);
    sum.total_ns = sum_of(sum.total_ns, one.total_ns);
    sum.self_ns = sum_of(sum.self_ns, one.self_ns);
  }
  std::vector<OperatorTotal> result;
  result.reserve(sums.size());
  for (auto& [name, sum] : sums) {
    sum.name = name;
    result.push_back(std::move(sum));
  }
  std::ranges::stable_sort(result, std::greater{}, &OperatorTotal::self_ns);
  if (limit != 0 && result.size() > limit) result.resize(limit);
  return result;
}

bool is_gemm_or_convolution(const std::string& name) {
  std::string_view rest = name;
  if (!rest.starts_with("aten::")) return false;
  rest.remove_prefix(6);
  while (rest.starts_with('_'))
    rest.remove_prefix(1);
  constexpr std::array<std::string_view, 8> kProducts = {"mm",     "addmm", "bmm", "baddbmm",
                                                         "addbmm", "addmv", "mv",  "linear"};
  if (std::ranges::find(kProducts, rest) != kProducts.end()) return true;
  constexpr std::array<std::string_view, 7> kFamilies = {
      "conv", "mkldnn_conv", "mkldnn_linear", "cudnn_conv", "slow_conv", "thnn_conv", "addmm_"};
  return std::ranges::any_of(kFamilies,
                             [rest](std::string_view family) { return rest.starts_with(family); });
}

bool is_gather(const std::string& name) {
  if (name == "aten::gather" || name == "GatherBackward0") return true;
  // The engine's frame around a node has the name of the node, too.
  return name.starts_with("torch::autograd::CppNode<") && name.ends_with("::GatherRows>");
}

}  // namespace autotuned::profiler
