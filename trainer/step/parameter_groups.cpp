// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/parameter_groups.hpp"

#include <utility>

#include "base/json.hpp"

namespace autotuned::trainer {

Result<std::vector<ParameterGroup>> make_groups(const recipes::Component& spec,
                                                const std::vector<at::Tensor>& parameters) {
  const bool is_split = !get_bool(spec.parameters, "decay_norms_and_biases").value_or(true);
  std::vector<ParameterGroup> groups;
  const auto add = [&](const recipes::Component& rule, auto&& belongs) -> Result<void> {
    ParameterGroup group;
    std::vector<at::Tensor> some;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!belongs(parameters[i])) continue;
      group.places.push_back(i);
      some.push_back(parameters[i]);
    }
    auto optimizer = make_optimizer(rule, std::move(some));
    if (!optimizer) return tl::unexpected(optimizer.error());
    group.optimizer = std::move(*optimizer);
    groups.push_back(std::move(group));
    return {};
  };
  const auto may_decay = [&](const at::Tensor& one) { return !is_split || one.dim() > 1; };
  if (auto added = add(spec, may_decay); !added) return tl::unexpected(added.error());
  if (!is_split) return groups;
  recipes::Component without = spec;
  without.parameters["weight_decay"] = 0.0;
  const auto must_not = [&](const at::Tensor& one) { return !may_decay(one); };
  if (auto added = add(without, must_not); !added) return tl::unexpected(added.error());
  return groups;
}

}  // namespace autotuned::trainer
