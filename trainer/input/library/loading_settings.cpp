// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/library/loading_settings.hpp"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "recipes/checker.hpp"
#include "recipes/schema_table.hpp"
#include "recipes/yaml.hpp"

namespace autotuned::input {
namespace {

constexpr const char* kOfSettings = "autotuned.Loader";

// The same table of data and transforms as that of recipes: what is right there is right here.
const recipes::Field& settings_field() {
  using enum recipes::FieldType;
  constexpr recipes::Range kBytes{.minimum = 0, .maximum = 1e15};
  static const recipes::Field field{
      .type = map,
      .fields = {
          {.key = "data", .type = typed, .is_required = true, .variants = &recipes::data_types()},
          {.key = "input",
           .type = transforms,
           .default_text = "[]",
           .variants = &recipes::transform_types()},
          {.key = "batch_size",
           .type = integer,
           .default_text = "1",
           .range = {.minimum = 1, .maximum = 1e6}},
          {.key = "drop_last", .type = boolean, .default_text = "false"},
          {.key = "workers",
           .type = integer,
           .default_text = "0",
           .range = {.minimum = 0, .maximum = 1024}},
          {.key = "prefetch_factor",
           .type = integer,
           .default_text = "2",
           .range = {.minimum = 1, .maximum = 1024}},
          {.key = "seed", .type = integer, .default_text = "1", .range = recipes::kNotNegative},
          {.key = "rank", .type = integer, .default_text = "0", .range = recipes::kNotNegative},
          {.key = "ranks",
           .type = integer,
           .default_text = "1",
           .range = {.minimum = 1, .maximum = 1e6}},
          {.key = "cache_bytes", .type = integer, .default_text = "0", .range = kBytes},
          {.key = "index_bytes", .type = integer, .default_text = "1073741824", .range = kBytes},
          {.key = "given_batches", .type = boolean, .default_text = "false"}}};
  return field;
}

tl::unexpected<Error> refuse(const std::vector<recipes::Diagnostic>& problems) {
  std::string all;
  for (const recipes::Diagnostic& problem : problems)
    all += (all.empty() ? "" : "\n") + problem.message;
  return fail(ErrorKind::invalid, std::move(all), kOfSettings);
}

}  // namespace

Result<LoadingSettings> read_loading_settings(std::string_view text) {
  const auto root = recipes::parse_yaml(text, kOfSettings);
  if (!root) return refuse(root.error());
  std::vector<recipes::Diagnostic> problems;
  std::error_code ignored;
  recipes::Checker checker(kOfSettings, std::filesystem::current_path(ignored), problems);
  std::optional<Json> values = checker.check(settings_field(), *root, "");
  if (!problems.empty() || !values) return refuse(problems);

  const auto number = [&](const char* key) { return values->at(key).get<std::int64_t>(); };
  LoadingSettings settings;
  settings.data = std::move(values->at("data"));
  settings.data_type = settings.data.at("type").get<std::string>();
  settings.data.erase("type");
  settings.is_shuffled = get_bool(settings.data, "shuffle").value_or(true);
  for (Json& transform : values->at("input")) {
    Transform& added = settings.transforms.emplace_back();
    added.type = transform.at("type").get<std::string>();
    added.parameters = std::move(transform);
    added.parameters.erase("type");
  }
  settings.drop_last = values->at("drop_last").get<bool>();
  settings.batch_size = number("batch_size");
  settings.workers = number("workers");
  settings.prefetch_factor = number("prefetch_factor");
  settings.seed = static_cast<std::uint64_t>(number("seed"));
  settings.share = {.rank = number("rank"), .ranks = number("ranks"), .drops = settings.drop_last};
  settings.cache_bytes = number("cache_bytes");
  settings.index_bytes = number("index_bytes");
  settings.are_batches_given = values->at("given_batches").get<bool>();
  if (settings.share.rank >= settings.share.ranks) {
    return fail(ErrorKind::invalid,
                "the rank is " + std::to_string(settings.share.rank) + " of " +
                    std::to_string(settings.share.ranks),
                kOfSettings, "ranks are numbered from 0");
  }
  if (settings.are_batches_given && settings.share.ranks > 1) {
    return fail(ErrorKind::invalid, "batches that are given have no ranks", kOfSettings,
                "give each rank its own batches");
  }
  return settings;
}

}  // namespace autotuned::input
