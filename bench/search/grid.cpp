// SPDX-License-Identifier: Apache-2.0
#include "bench/search/grid.hpp"

#include <algorithm>
#include <cmath>

#include "base/file.hpp"

namespace autotuned::bench {
namespace {

constexpr std::size_t kMaxGridBytes = std::size_t{16} << 20U;

// The median. With an even number of values it is the mean of the middle two, so that half of a few rounds
// favours neither end.
double middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

tl::unexpected<Error> no_grid(const std::filesystem::path& file, const std::string& what) {
  return fail(ErrorKind::invalid, what + "; bench/scan --output writes a grid", file.string());
}

Result<Machine> machine_of(const Json& json) {
  Machine machine;
  machine.cpu_model = get_string(json, "cpu_model").value_or("");
  const auto cpus = get_integer(json, "cpus_allowed");
  if (!cpus) return tl::unexpected(cpus.error());
  const auto cores = get_integer(json, "physical_cores");
  if (!cores) return tl::unexpected(cores.error());
  machine.cpus_allowed = static_cast<int>(*cpus);
  machine.physical_cores = static_cast<int>(*cores);
  machine.memory_allowed_bytes = get_integer(json, "memory_allowed_bytes").value_or(0);
  for (const Json& feature : member(json, "cpu_features")) {
    if (feature.is_string()) machine.cpu_features.push_back(feature.get<std::string>());
  }
  return machine;
}

}  // namespace

const GridPoint* Grid::find(const Configuration& configuration) const {
  const auto found = points.find(configuration.canonical_text());
  return found == points.end() ? nullptr : &found->second;
}

double best_rate(const std::vector<std::vector<double>>& rates) {
  const std::size_t rounds = rates.front().size();
  if (rounds == 1) return std::ranges::max(rates).front();
  std::vector<double> told;
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::vector<double>* chosen = nullptr;
    double most = 0.0;
    for (const std::vector<double>& of_point : rates) {
      std::vector<double> others = of_point;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(round));
      const double rate = middle_of(std::move(others));
      if (chosen != nullptr && rate <= most) continue;
      most = rate;
      chosen = &of_point;
    }
    told.push_back((*chosen)[round]);
  }
  return middle_of(std::move(told));
}

double noise_ratio(const std::vector<std::vector<double>>& rates) {
  double squares = 0.0;
  double freedoms = 0.0;
  for (const std::vector<double>& of_point : rates) {
    const auto count = static_cast<double>(of_point.size());
    double mean = 0.0;
    for (const double rate : of_point)
      mean += std::log(rate) / count;
    for (const double rate : of_point)
      squares += (std::log(rate) - mean) * (std::log(rate) - mean);
    freedoms += count - 1.0;
  }
  return freedoms > 0.0 ? std::sqrt(squares / freedoms) : 0.0;
}

Json without_folders(Json json) {
  if (json.is_structured()) {
    for (Json& item : json)
      item = without_folders(std::move(item));
  } else if (json.is_string() && json.get_ref<const std::string&>().starts_with('/')) {
    json = std::filesystem::path(json.get_ref<const std::string&>()).filename().string();
  }
  return json;
}

Result<Grid> read_grid(const std::filesystem::path& file) {
  const auto text = read_file(file, kMaxGridBytes);
  if (!text) return tl::unexpected(text.error());
  const auto parsed = parse_json(*text, file.string());
  if (!parsed) return tl::unexpected(parsed.error());
  const Json& json = *parsed;
  const Json& points = member(json, "points");
  if (!points.is_array() || points.empty()) return no_grid(file, "there are no points");
  Grid grid;
  grid.name = file.stem().string();
  auto recipe = recipes::Recipe::from_json(member(json, "recipe"));
  if (!recipe) return no_grid(file, "its recipe: " + recipe.error().what);
  grid.recipe = *std::move(recipe);
  auto machine = machine_of(member(json, "machine"));
  if (!machine) return tl::unexpected(machine.error());
  grid.machine = *std::move(machine);
  grid.facts = member(json, "facts");
  auto start = Configuration::from_json(member(json, "start"));
  if (!start) return tl::unexpected(start.error());
  grid.start = *std::move(start);

  std::vector<std::vector<double>> rates;
  for (const Json& one : points) {
    const auto change = Configuration::from_json(member(one, "change"));
    if (!change) return tl::unexpected(change.error());
    std::vector<double>& of_point = rates.emplace_back();
    for (const Json& rate : member(one, "samples_per_second")) {
      if (rate.is_number() && rate.get<double>() > 0.0) of_point.push_back(rate.get<double>());
    }
    if (of_point.empty() || of_point.size() != rates.front().size()) {
      return no_grid(file, "a point has no rates, or not those of every round");
    }
    const double rate = middle_of(of_point);
    for (const auto& [name, value] : change->values())
      grid.values[name].insert(to_text(value));
    grid.points[grid.start.with(*change).canonical_text()] = {rate, member(one, "metrics")};
  }
  for (auto& [name, values] : grid.values) {
    const KnobValue* const value = grid.start.find(name);
    if (value == nullptr) return no_grid(file, "the start has no " + name);
    values.insert(to_text(*value));
  }
  if (grid.find(grid.start) == nullptr) return no_grid(file, "the start is no point of it");
  grid.best = best_rate(rates);
  grid.noise_ratio = noise_ratio(rates);
  return grid;
}

}  // namespace autotuned::bench
