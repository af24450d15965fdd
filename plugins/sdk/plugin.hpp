// SPDX-License-Identifier: Apache-2.0
// The header for authors of policy plugins. It wraps autotuned_plugin.h and needs only nlohmann-json. README.md shows a
// whole plugin.
//
// A plugin is one function from a Situation to an Answer. It keeps nothing between calls: everything it
// may know, its own earlier trials included, is in the situation. It may throw; the program then goes on
// without it and names it.
#pragma once

#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/sdk/autotuned_plugin.h"
#include "plugins/sdk/situation.hpp"

namespace autotuned::sdk {

struct Candidate {
  Json change = Json::object();      // {"loader.workers": 2}
  double expected_gain_ratio = 1.0;  // of rates: 1.3 is 30 % faster
  std::string reason;                // one sentence with the evidence in it
  // The share of the step that the signal explains, 0 to 1: the most that the change could save. Where it is
  // given and too small to reach the recipe's min_gain, no trial is spent on it.
  std::optional<double> signal_share_ratio = std::nullopt;
  // The seconds that the change takes once before its first step, such as those of a compiler. Without time for them no
  // trial is begun.
  double preparation_s = 0.0;
};

// What a plugin answers: its candidates, best first, or the reason why there is none.
struct Answer {
  std::vector<Candidate> candidates;
  std::string none_because;

  void add(Json change, double expected_gain_ratio, std::string reason,
           std::optional<double> signal_share_ratio = std::nullopt, double preparation_s = 0.0) {
    candidates.push_back({std::move(change), expected_gain_ratio, std::move(reason),
                          signal_share_ratio, preparation_s});
  }
  [[nodiscard]] Json to_json() const {
    Json list = Json::array();
    for (const Candidate& candidate : candidates) {
      list.push_back({{"change", candidate.change},
                      {"expected_gain_ratio", candidate.expected_gain_ratio},
                      {"reason", candidate.reason}});
      if (candidate.signal_share_ratio) {
        list.back()["signal_share_ratio"] = *candidate.signal_share_ratio;
      }
      if (candidate.preparation_s > 0.0) list.back()["preparation_s"] = candidate.preparation_s;
    }
    return {{"candidates", std::move(list)}, {"none_because", none_because}};
  }
};

[[nodiscard]] inline Answer none(std::string because) {
  return {.candidates = {}, .none_because = std::move(because)};
}

[[nodiscard]] inline Answer propose_one(Json change, double expected_gain_ratio, std::string reason,
                                        std::optional<double> signal_share_ratio = std::nullopt) {
  Answer answer;
  answer.add(std::move(change), expected_gain_ratio, std::move(reason), signal_share_ratio);
  return answer;
}

namespace detail {

// Calls a plugin's function through the C surface. It throws nothing: an exception becomes {"error": "…"}, and without
// memory for even that the answer is NULL.
const char* answer(Answer (*propose)(const Situation&), const char* text) noexcept;

#ifndef AUTOTUNED_SDK_IS_COMPILED
AUTOTUNED_SDK_INLINE const char* answer(Answer (*propose)(const Situation&),
                                        const char* text) noexcept {
  try {
    Json json;
    try {
      json = propose(Situation::read(text)).to_json();
    } catch (const std::exception& error) {
      json = {{"error", error.what()}};
    } catch (...) {
      json = {{"error", "an exception of an unknown type"}};
    }
    const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    char* const copy = new char[line.size() + 1];
    std::memcpy(copy, line.c_str(), line.size() + 1);
    return copy;
  } catch (...) {
    return nullptr;
  }
}
#endif

inline void release(const char* answer) {
  delete[] answer;
}

}  // namespace detail
}  // namespace autotuned::sdk

// Makes this library a policy plugin; once, at global scope. PROPOSE is a function
// `autotuned::sdk::Answer propose(const autotuned::sdk::Situation&)`; the others are string literals.
// NAME is that of the file: lib<NAME>.so.
#define AUTOTUNED_PLUGIN(NAME, VERSION, SUMMARY, PROPOSE)                               \
  namespace {                                                                           \
  const char* autotuned_propose(const char* situation_json) {                           \
    return ::autotuned::sdk::detail::answer(PROPOSE, situation_json);                   \
  }                                                                                     \
  constexpr autotuned_plugin kAutotunedDescriptor = {                                   \
      AUTOTUNED_PLUGIN_MAGIC, sizeof(autotuned_plugin),         NAME, VERSION, SUMMARY, \
      autotuned_propose,      ::autotuned::sdk::detail::release};                       \
  }                                                                                     \
  extern "C" {                                                                          \
  extern __attribute__((visibility("default"))) const void* const autotuned_plugin_v1;  \
  const void* const autotuned_plugin_v1 = &kAutotunedDescriptor;                        \
  }                                                                                     \
  static_assert(true, "needs a semicolon")
