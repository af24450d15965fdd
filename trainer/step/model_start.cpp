// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/model_start.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/text.hpp"
#include "trainer/models/model.hpp"
#include "trainer/state/checkpoint.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::size_t kMaxNamed = 5;

std::vector<std::string> names_in(const Json& list) {
  std::vector<std::string> names;
  for (const Json& name : list)
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

// Whether `name` is `outer` or lies below it: "layer1" has "layer1.0.weight", but not "layer10.weight".
bool is_below(std::string_view name, std::string_view outer) {
  return name == outer || (name.starts_with(outer) && name.substr(outer.size()).starts_with('.'));
}

bool is_below_any(std::string_view name, const std::vector<std::string>& outer) {
  return std::ranges::any_of(outer, [&](const std::string& one) { return is_below(name, one); });
}

std::string shape_text(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes())
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text.empty() ? "one number" : text;
}

// Parameters and buffers.
NamedTensors tensors_of(const Model& model) {
  NamedTensors all;
  for (const auto& parameter : model.named_parameters())
    all.emplace_back(parameter.key(), parameter.value());
  for (const auto& buffer : model.named_buffers())
    all.emplace_back(buffer.key(), buffer.value());
  return all;
}

// The modules at the top, for who has mistyped a name.
std::string tops_of(const NamedTensors& tensors) {
  std::vector<std::string> tops;
  for (const auto& [name, tensor] : tensors) {
    std::string top = name.substr(0, name.find('.'));
    if (std::ranges::find(tops, top) == tops.end()) tops.push_back(std::move(top));
  }
  std::string text;
  for (const std::string& top : tops)
    text += (text.empty() ? "" : ", ") + top;
  return text;
}

Result<void> check_names(const std::vector<std::string>& names, const NamedTensors& tensors,
                         const char* where) {
  for (const std::string& name : names) {
    const bool is_known = std::ranges::any_of(
        tensors, [&](const auto& tensor) { return is_below(tensor.first, name); });
    if (is_known) continue;
    return fail(ErrorKind::invalid, "the model has no parameter or module '" + name + "'", where,
                "at the top it has " + tops_of(tensors));
  }
  return {};
}

bool is_equal(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == b.scalar_type()) return at::equal(a, b);
  return at::equal(a.to(at::kDouble), b.to(at::kDouble));
}

// A file of Python's has a tied parameter under both names, or under the second alone.
Result<void> drop_tied(const std::string& file, const std::vector<std::string>& except,
                       const Model& model, std::map<std::string, at::Tensor>& saved) {
  for (const TiedName& tied : model.tied_names()) {
    const auto second = saved.find(tied.name);
    if (second == saved.end()) continue;
    const at::Tensor tensor = second->second;
    saved.erase(second);
    if (is_below_any(tied.of, except) || is_below_any(tied.name, except)) continue;
    const auto [first, is_only] = saved.try_emplace(tied.of, tensor);
    if (!is_only && !is_equal(first->second, tensor)) {
      return fail(ErrorKind::invalid,
                  file + ": " + tied.name + " and " + tied.of +
                      " differ, and the model has one tensor for both",
                  "model.weights", "write tied: false");
    }
  }
  return {};
}

Result<void> take_weights(const std::string& file, const std::vector<std::string>& except,
                          const NamedTensors& tensors, const Model& model) {
  const auto read = read_model(file);
  if (!read) return tl::unexpected(read.error());
  std::map<std::string, at::Tensor> saved(read->begin(), read->end());
  if (auto dropped = drop_tied(file, except, model, saved); !dropped) return dropped;
  std::vector<std::string> missing;
  std::vector<std::string> unlike;
  std::vector<std::string> unknown;
  for (const auto& [name, tensor] : tensors) {
    if (is_below_any(name, except)) continue;
    const auto found = saved.find(name);
    if (found == saved.end()) {
      missing.push_back(name);
    } else if (found->second.sizes() != tensor.sizes()) {
      unlike.push_back(name + " (" + shape_text(found->second) + ", the model has " +
                       shape_text(tensor) + ")");
    }
  }
  for (const auto& [name, tensor] : saved) {
    const bool is_known =
        std::ranges::any_of(tensors, [&](const auto& own) { return own.first == name; });
    if (!is_known && !is_below_any(name, except)) unknown.push_back(name);
  }
  std::string what;
  if (!missing.empty()) what += "it lacks " + format_names(missing, kMaxNamed) + "; ";
  if (!unknown.empty()) what += "the model has no " + format_names(unknown, kMaxNamed) + "; ";
  if (!unlike.empty()) what += "another shape has " + format_names(unlike, kMaxNamed) + "; ";
  if (!what.empty()) {
    return fail(ErrorKind::invalid, file + ": " + what.substr(0, what.size() - 2), "model.weights",
                "name what shall keep its initial values in model.weights_except");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors)
    if (!is_below_any(name, except)) tensor.copy_(saved.at(name));
  return {};
}

Result<void> freeze(const std::vector<std::string>& names, const Model& model) {
  bool is_any_left = false;
  for (auto& parameter : model.named_parameters()) {
    if (is_below_any(parameter.key(), names)) parameter.value().set_requires_grad(false);
    is_any_left = is_any_left || parameter.value().requires_grad();
  }
  if (is_any_left) return {};
  return fail(ErrorKind::invalid, "every parameter is frozen, so that nothing is left to train",
              "model.freeze", "leave a name out");
}

}  // namespace

Result<void> start_as(const recipes::Component& spec, Model& model) {
  const std::vector<std::string> except = names_in(member(spec.parameters, "weights_except"));
  const std::vector<std::string> frozen = names_in(member(spec.parameters, "freeze"));
  const Json& file = member(spec.parameters, "weights");
  if (!file.is_string() && frozen.empty()) return {};
  const NamedTensors tensors = tensors_of(model);
  if (file.is_string()) {
    if (auto known = check_names(except, tensors, "model.weights_except"); !known) return known;
    if (auto taken = take_weights(file.get<std::string>(), except, tensors, model); !taken)
      return taken;
  }
  if (frozen.empty()) return {};
  if (auto known = check_names(frozen, tensors, "model.freeze"); !known) return known;
  return freeze(frozen, model);
}

}  // namespace autotuned::trainer
