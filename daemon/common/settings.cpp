// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "recipes/schema.hpp"

namespace autotuned::daemon {

namespace {

Error unknown_knob(const std::string& setting, const std::string& name,
                   const std::vector<recipes::Knob>& knobs) {
  std::vector<std::string> names;
  for (const recipes::Knob& knob : knobs)
    names.push_back(knob.name);
  const std::vector<std::string> keys = recipes::paths_of_key(name);
  if (!keys.empty()) {
    return {ErrorKind::invalid, "'" + name + "' is no knob but a setting of the recipe",
            "-s " + short_for_message(setting),
            "write it into the recipe, as " + fmt::format("{}", fmt::join(keys, " or "))};
  }
  const auto near = nearest_name(name, names);
  const std::string remedy = recipes::may_be_of_extension(knobs, name)
                                 ? std::string(recipes::kExtensionRemedy) + "; "
                                 : std::string();
  return {ErrorKind::invalid, "there is no knob '" + short_for_message(name) + "'",
          "-s " + short_for_message(setting),
          remedy + (near ? "did you mean '" + *near + "'?" : "`autotuned knobs` lists them")};
}

}  // namespace

Result<void> apply_settings(const std::vector<std::string>& settings,
                            const std::vector<recipes::Knob>& knobs, recipes::Recipe& recipe) {
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return fail(ErrorKind::invalid, "expected KNOB=VALUE", "-s " + short_for_message(setting));
    }
    const std::string name = setting.substr(0, equals);
    const auto knob = recipes::find_knob(knobs, name);
    if (!knob) return tl::unexpected(unknown_knob(setting, name, knobs));
    auto value = recipes::parse_value(*knob, setting.substr(equals + 1));
    if (!value) {
      Error error = value.error();
      error.where = "-s " + short_for_message(setting);
      return tl::unexpected(std::move(error));
    }
    if (name == "batch_size") {
      recipe.train.batch_size = std::get<std::int64_t>(*value);
      // As in a recipe: the limit gives way to a batch that somebody asked for.
      recipe.tune.batch_size_max = std::max(recipe.tune.batch_size_max, recipe.train.batch_size);
    } else {
      recipe.start.set(name, std::move(*value));
    }
  }
  return {};
}

}  // namespace autotuned::daemon
