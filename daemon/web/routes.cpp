// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/routes.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

namespace autotuned::daemon {

namespace {

constexpr std::size_t kMaxSteps = 6;
constexpr std::size_t kLongestName = 64;

std::vector<std::string_view> steps_of(std::string_view path) {
  std::vector<std::string_view> steps;
  while (steps.size() < kMaxSteps) {
    const std::size_t slash = path.find('/');
    steps.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return steps;
}

std::optional<std::int64_t> number_from(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && number > 0;
  return is_number ? std::optional(number) : std::nullopt;
}

// A run or a trial, such as "r-20261121-7f3a9c.3": nothing that has a meaning in a path.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '.';
         });
}

std::optional<WebQuery> route_get(const std::vector<std::string_view>& steps) {
  const std::string_view first = steps.front();
  if (steps.size() == 1 && first.empty()) return FileQuery{"page.html"};
  if (steps.size() == 2 && first == "files") {
    return FileQuery{"files/" + std::string(steps[1])};
  }
  if (steps.size() == 3 && first == "profile" && is_name(steps[1]) &&
      (steps[2] == "start" || steps[2] == "best")) {
    return HistoryQuery(ProfileQuery{std::string(steps[1]), std::string(steps[2])});
  }
  if (steps.size() < 2 || first != "api") return std::nullopt;
  const std::string_view what = steps[1];
  if (steps.size() == 2 && what == "status") return StatusQuery{};
  if (steps.size() == 2 && what == "runs") return HistoryQuery(RunsQuery{});
  if (steps.size() == 3 && what == "runs" && is_name(steps[2])) {
    return HistoryQuery(RunQuery{std::string(steps[2])});
  }
  if (steps.size() == 4 && what == "compare" && is_name(steps[2]) && is_name(steps[3])) {
    return HistoryQuery(CompareQuery{std::string(steps[2]), std::string(steps[3])});
  }
  if (steps.size() == 4 && what == "jobs" && steps[3] == "events") {
    if (const auto job = number_from(steps[2])) return EventsQuery{*job};
  }
  return std::nullopt;
}

}  // namespace

std::optional<WebQuery> route(std::string_view method, std::string_view path) {
  const auto steps = steps_of(path.substr(0, path.find('?')));
  if (method == "GET") return route_get(steps);
  if (method == "POST" && steps.size() == 4 && steps[0] == "api" && steps[1] == "jobs" &&
      steps[3] == "cancel") {
    if (const auto job = number_from(steps[2])) return CancelQuery{*job};
  }
  return std::nullopt;
}

}  // namespace autotuned::daemon
