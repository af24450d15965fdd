// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/memory_fallback.hpp"

#include <algorithm>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/report/report.hpp"

namespace autotuned::daemon {
namespace {

// Null: it never fell back.
const Json& last_fallback(const storage::RunRow& run) {
  static const Json kNone;
  const Json& fallbacks = member(run.training, kFallbacks);
  return fallbacks.is_array() && !fallbacks.empty() ? fallbacks.back() : kNone;
}

}  // namespace

Configuration trained_configuration(const storage::RunRow& run) {
  const auto last = Configuration::from_json(member(last_fallback(run), "configuration"));
  return last && !last->empty() ? *last : run.best;
}

void add_fallback(const Configuration& next, const Error& error, std::int64_t unix_ns,
                  storage::RunRow& run) {
  if (!run.training.is_object()) run.training = Json::object();
  Json& fallbacks = run.training[kFallbacks];
  if (!fallbacks.is_array()) fallbacks = Json::array();
  fallbacks.push_back({{"configuration", next.to_json()},
                       {"change", run.best.change_to(next).to_json()},
                       {"error", error.message()},
                       {"is_memory_of_others", error.is_memory_of_others},
                       {"unix_ns", unix_ns}});
}

bool is_memory_taken_by_others(const storage::RunRow& run) {
  const Json& fallbacks = member(run.training, kFallbacks);
  return fallbacks.is_array() && std::ranges::any_of(fallbacks, [](const Json& one) {
           return get_bool(one, "is_memory_of_others").value_or(false);
         });
}

std::string memory_fallback_text(const storage::RunRow& run) {
  const Json& last = last_fallback(run);
  if (last.is_null()) return {};
  const std::string why = get_string(last, "error").value_or("no reason is known");
  return "the training ran out of memory and went on with " +
         change_text(run.best, run.best.change_to(trained_configuration(run))) + ": " +
         printable(first_line(why.c_str()));
}

}  // namespace autotuned::daemon
