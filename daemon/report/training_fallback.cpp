// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/training_fallback.hpp"

#include <algorithm>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/report/report.hpp"

namespace autotuned::daemon {
namespace {

constexpr const char* kExtensions = "extensions";
constexpr const char* kRefused = "refused";
constexpr const char* kFromStep = "from_step";
constexpr const char* kEnds = "ends";
constexpr const char* kFault = "fault";

// An empty list: it never fell back.
const Json& fallbacks_of(const storage::RunRow& run) {
  static const Json kNone = Json::array();
  const Json& fallbacks = member(run.training, kFallbacks);
  return fallbacks.is_array() ? fallbacks : kNone;
}

bool is_of_extensions(const Json& fallback) {
  return !strings_in(fallback, kExtensions).empty();
}

// The settings of a fallback; empty if they cannot be read.
Configuration settings_of(const Json& fallback, const char* field) {
  return Configuration::from_json(member(fallback, field)).value_or(Configuration());
}

// The part of `whole` that names the knobs of `part`.
Configuration same_knobs(const Configuration& whole, const Configuration& part) {
  Configuration same;
  for (const auto& [name, value] : part.values()) {
    if (const KnobValue* const found = whole.find(name)) same.set(name, *found);
  }
  return same;
}

ExtensionFault fault_of(const Json& fallback) {
  return extension_fault_from(get_string(fallback, kFault).value_or(""));
}

bool is_guess(const Json& fallback) {
  return !member(fallback, kEnds).is_null() || fault_of(fallback) == ExtensionFault::suspected;
}

std::optional<std::int64_t> from_step_of(const Json& fallback) {
  const auto step = get_integer(fallback, kFromStep);
  return step ? std::optional(*step) : std::nullopt;
}

// "the steps up to 600", or "the steps before its last checkpoint".
std::string steps_until(std::optional<std::int64_t> from_step) {
  return from_step ? "the steps up to " + format_count(*from_step)
                   : "the steps before its last checkpoint";
}

std::string reason_of(const Json& fallback) {
  const std::string why = get_string(fallback, "error").value_or("no reason is known");
  return printable(first_line(why.c_str()));
}

}  // namespace

Configuration trained_configuration(const storage::RunRow& run) {
  const Json& fallbacks = fallbacks_of(run);
  if (fallbacks.empty()) return run.best;
  const Configuration last = settings_of(fallbacks.back(), "configuration");
  return last.empty() ? run.best : last;
}

void add_fallback(const Configuration& next, const Error& error, std::int64_t unix_ns,
                  storage::RunRow& run, std::optional<std::int64_t> from_step, int ends) {
  Json added = {{"configuration", next.to_json()},
                {"change", run.best.change_to(next).to_json()},
                {"error", error.message()},
                {"is_memory_of_others", error.is_memory_of_others},
                {"unix_ns", unix_ns}};
  if (!error.extensions.empty()) {
    added[kExtensions] = error.extensions;
    added[kRefused] = next.change_to(trained_configuration(run)).to_json();
    added[kFromStep] = from_step ? Json(*from_step) : Json();
    if (ends > 0) added[kEnds] = ends;
    if (error.extension_fault != ExtensionFault::failed) {
      added[kFault] = to_string(error.extension_fault);
    }
  }
  if (!run.training.is_object()) run.training = Json::object();
  Json& fallbacks = run.training[kFallbacks];
  if (!fallbacks.is_array()) fallbacks = Json::array();
  fallbacks.push_back(std::move(added));
}

void take_back_guess(storage::RunRow& run) {
  if (fallbacks_of(run).empty()) return;
  Json kept = Json::array();
  for (const Json& fallback : fallbacks_of(run)) {
    if (is_guess(fallback)) break;  // those behind it build on it
    kept.push_back(fallback);
  }
  if (kept.empty()) {
    run.training.erase(kFallbacks);
  } else {
    run.training[kFallbacks] = std::move(kept);
  }
}

bool is_memory_taken_by_others(const storage::RunRow& run) {
  return std::ranges::any_of(fallbacks_of(run), [](const Json& one) {
    return get_bool(one, "is_memory_of_others").value_or(false);
  });
}

std::vector<Configuration> refused_in_training(const storage::RunRow& run) {
  std::vector<Configuration> refused;
  for (const Json& fallback : fallbacks_of(run)) {
    Configuration settings = settings_of(fallback, kRefused);
    if (!settings.empty()) refused.push_back(std::move(settings));
  }
  return refused;
}

std::string left_out_plugins(const storage::RunRow& run) {
  std::vector<std::string> names;
  if (run.speedup.pairs == 0) return {};
  for (const Json& fallback : fallbacks_of(run)) {
    for (const std::string& name : strings_in(fallback, kExtensions))
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return plugins_text(names);
}

std::string left_out_text(const storage::RunRow& run) {
  const std::string plugins = left_out_plugins(run);
  return plugins.empty() ? "" : "measured with " + plugins + ", which the training left out";
}

std::string memory_fallback_text(const storage::RunRow& run) {
  const Json* last = nullptr;
  for (const Json& fallback : fallbacks_of(run))
    if (!is_of_extensions(fallback)) last = &fallback;
  if (last == nullptr) return {};
  const Configuration trained = trained_configuration(run);
  // What it went on without for another reason is no part of this change.
  Configuration kept = run.best;
  for (const Configuration& settings : refused_in_training(run))
    kept = kept.with(same_knobs(trained, settings));
  return "the training ran out of memory and went on with " +
         change_text(kept, kept.change_to(trained)) + ": " + reason_of(*last);
}

std::string extension_fallback_text(const storage::RunRow& run) {
  std::string text;
  for (const Json& fallback : fallbacks_of(run)) {
    const std::vector<std::string> names = strings_in(fallback, kExtensions);
    if (names.empty()) continue;
    const Configuration refused = settings_of(fallback, kRefused);
    const std::optional<std::int64_t> step = from_step_of(fallback);
    text += (text.empty() ? "" : "; ") + std::string("the training went on ") + from_text(step) +
            " without " + plugins_text(names) + " (" +
            change_text(refused, same_knobs(settings_of(fallback, "change"), refused)) +
            "), which is not tried again: " + reason_of(fallback);
    if (fault_of(fallback) != ExtensionFault::trained_otherwise) continue;
    const std::string doubted = doubted_steps_text(names, step);
    if (!doubted.empty()) text += "; " + doubted;
  }
  return text;
}

std::string doubted_steps_text(const std::vector<std::string>& names,
                               std::optional<std::int64_t> from_step) {
  if (from_step == 0) return {};
  std::string text = steps_until(from_step) + " were trained with " +
                     (names.size() > 1 ? "them" : "it") + " and may be wrong, too:";
  for (const std::string& name : names)
    text += " --without " + printable(name);
  return text + " with another --output trains them anew";
}

std::string doubted_steps(const storage::RunRow& run) {
  std::string text;
  for (const Json& fallback : fallbacks_of(run)) {
    const std::optional<std::int64_t> step = from_step_of(fallback);
    if (fault_of(fallback) != ExtensionFault::trained_otherwise || step == 0) continue;
    text += (text.empty() ? "" : " and ") + steps_until(step) + ", with " +
            plugins_text(strings_in(fallback, kExtensions));
  }
  return text;
}

std::string fallback_text(const storage::RunRow& run) {
  const std::string memory = memory_fallback_text(run);
  const std::string extension = extension_fallback_text(run);
  return memory + (memory.empty() || extension.empty() ? "" : "; ") + extension;
}

std::string plugins_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "plugin " : " and plugin ") + printable(name);
  return text;
}

std::string from_text(std::optional<std::int64_t> step) {
  if (!step) return "from its last checkpoint";
  return *step == 0 ? "from its start" : "from step " + std::to_string(*step);
}

}  // namespace autotuned::daemon
