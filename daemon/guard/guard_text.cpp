// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/guard/guard.hpp"
#include "daemon/report/report.hpp"
#include "tuner/comparison.hpp"

namespace autotuned::daemon {
namespace {

std::string verdict_text(const GuardSpec& spec, const GuardResult& result) {
  const std::string limit = fmt::format("{:.1f} %", 100 * spec.tolerance_ratio);
  switch (result.verdict) {
    case GuardVerdict::not_slower:
      return "not slower: a loss of " + limit + " or more against the other side is excluded";
    case GuardVerdict::slower:
      return "slower: the other side is shown to be faster, and the median loss is over " + limit;
    case GuardVerdict::undecided:
      break;
  }
  return "undecided: neither a loss of " + limit +
         " nor the absence of one is shown; --budget gives it more time, --tolerance asks for less";
}

Json or_null(double value, bool is_known) {
  return is_known ? Json(value) : Json();
}

}  // namespace

std::string guard_text(const GuardSpec& spec, const GuardResult& result) {
  std::vector<std::vector<std::string>> rows = {{"", "this", "against"}};
  const auto row = [&rows](const char* label, const std::string& own, const std::string& against) {
    rows.push_back({label, own, against});
  };
  row("settings", spec.own.name, spec.against.name);
  row("trainer", spec.own.trainer.string(), spec.against.trainer.string());
  const bool is_measured = result.ratio.pairs > 0;
  if (is_measured) row("build", result.own_build, result.against_build);
  const Configuration change = spec.own.configuration.change_to(spec.against.configuration);
  for (const auto& [knob, value] : change.values()) {
    const KnobValue* own = spec.own.configuration.find(knob);
    rows.push_back({knob, own == nullptr ? "-" : to_text(*own), to_text(value)});
  }
  if (is_measured) {
    row("rate", rate_text(result.own_samples_per_second),
        rate_text(result.against_samples_per_second));
  }
  std::string text = table_text(rows);
  if (!is_measured) return text + "verdict  not measured: " + printable(result.reason) + "\n";
  std::string pairs = format_counted(result.ratio.pairs, "pair") + " of blocks";
  if (result.process_pairs > 0) {
    pairs += " in " + format_counted(result.process_pairs, "pair") + " of processes";
  }
  text += fmt::format("ratio    {}, this side over the other one, {}\n",
                      estimate_text(result.ratio), pairs);
  text += "verdict  " + verdict_text(spec, result) + "\n";
  if (!result.reason.empty()) text += "why      " + printable(result.reason) + "\n";
  return text;
}

Json guard_json(const GuardSpec& spec, const GuardResult& result) {
  const auto side = [](const GuardSide& of, const std::string& build, double rate) {
    return Json{{"name", of.name},
                {"recipe", of.recipe.name},
                {"trainer", of.trainer.string()},
                {"build", build},
                {"configuration", of.configuration.to_json()},
                {"samples_per_second", rate}};
  };
  return {{"verdict", to_string(result.verdict)},
          {"tolerance_ratio", spec.tolerance_ratio},
          {"ratio", or_null(result.ratio.ratio, result.ratio.pairs > 0)},
          {"ratio_low", or_null(result.ratio.low, result.ratio.low > 0.0)},
          {"ratio_high", or_null(result.ratio.high, result.ratio.high < tuner::kNoUpperEnd)},
          {"pairs", result.ratio.pairs},
          {"process_pairs", result.process_pairs},
          {"reason", result.reason},
          {"this", side(spec.own, result.own_build, result.own_samples_per_second)},
          {"against", side(spec.against, result.against_build, result.against_samples_per_second)}};
}

}  // namespace autotuned::daemon
