// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/kept_modules.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "trainer/models/model.hpp"

namespace autotuned::trainer {
namespace {

constexpr const char* kKnob = "precision.keep_float32";
constexpr std::size_t kMaxNames = 12;

using ModulesByName = std::map<std::string, const torch::nn::Module*>;

ModulesByName modules_of(const Model& model) {
  ModulesByName modules;
  for (const auto& module : model.named_modules("", /*include_self=*/false))
    modules.emplace(module.key(), module.value().get());
  return modules;
}

// The module with the last parameter; empty where that is the model itself.
std::string last_module(const Model& model) {
  const auto parameters = model.named_parameters();
  if (parameters.is_empty()) return {};
  const std::string& name = parameters.back().key();
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

bool is_normalisation(const torch::nn::Module& module) {
  return module.name().find("Norm") != std::string::npos;
}

tl::unexpected<Error> no_module(const ModulesByName& modules, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, unused] : modules)
    names.push_back(known);
  std::string remedy = "its modules are";
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNames); ++i)
    remedy += (i == 0 ? " " : ", ") + names[i];
  if (names.size() > kMaxNames) remedy += ", ...";
  if (const auto nearest = nearest_name(name, names)) remedy = "did you mean '" + *nearest + "'?";
  return fail(ErrorKind::invalid, "the model has no module '" + name + "'", kKnob, remedy);
}

}  // namespace

Result<KeptModules> kept_modules(const Model& model, const std::string& value) {
  KeptModules kept;
  if (value == "none") return kept;
  const ModulesByName modules = modules_of(model);
  std::string_view rest = value;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = rest.find(',');
    std::string word(rest.substr(0, comma));
    is_last = comma == std::string_view::npos;
    if (!is_last) rest.remove_prefix(comma + 1);
    if (word == "loss") {
      kept.has_loss = true;
      continue;
    }
    if (const std::string why = model.why_opaque(); !why.empty()) {
      return fail(ErrorKind::unsupported, "no module can be kept in 32 bit: " + why, kKnob,
                  "keep none, or only the loss");
    }
    const bool is_norms = word == "norms";
    if (word == "last") word = last_module(model);
    const std::size_t before = kept.modules.size();
    for (const auto& [name, module] : modules) {
      const bool is_meant =
          is_norms ? is_normalisation(*module) : name == word || name.starts_with(word + ".");
      if (is_meant) kept.modules.push_back(module);
    }
    if (kept.modules.size() > before) continue;
    if (is_norms) return fail(ErrorKind::invalid, "the model has no normalisations", kKnob);
    return no_module(modules, word);
  }
  std::ranges::sort(kept.modules);
  const auto repeated = std::ranges::unique(kept.modules);
  kept.modules.erase(repeated.begin(), repeated.end());
  return kept;
}

}  // namespace autotuned::trainer
