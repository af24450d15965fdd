// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/golden_parts.hpp"
#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {

// The `signal_share_ratio` of the first candidate.
inline double first_share(const Json& answer) {
  return answer.at("candidates").at(0).at("signal_share_ratio").get<double>();
}

// What a built-in plugin answers in named cases of a test. What it decides is asserted where it is asked; what it says then is
// a part of plugins/builtin/golden/PLUGIN.txt, which the destructor compares. `changes` are merged into a situation for one
// question, where null removes (RFC 7396).
class Answers {
 public:
  explicit Answers(std::string plugin) : plugin_(std::move(plugin)) {}
  ~Answers() { tests::expect_golden_part("plugins/builtin/golden/" + plugin_ + ".txt", text_); }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // `change` is its first candidate.
  Json proposes(const std::string& given, const Json& asked, const Json& change,
                const Json& changes = Json::object()) {
    Json answer = answer_to(given, asked, changes);
    EXPECT_EQ(first_change(answer), change) << given;
    return answer;
  }
  // It has no candidate, and a reason.
  void declines(const std::string& given, const Json& asked, const Json& changes = Json::object()) {
    const Json answer = answer_to(given, asked, changes);
    EXPECT_EQ(answer.at("candidates"), Json::array()) << given;
    EXPECT_NE(none_because(answer), "") << given;
  }

 private:
  Json answer_to(const std::string& given, Json asked, const Json& changes) {
    asked.merge_patch(changes);
    Json answer = ask(plugin_, asked);
    text_ += given + "\n";
    for (const Json& candidate : answer.at("candidates")) {
      text_ += "  " + to_line(candidate.at("change")) + ": " +
               candidate.at("reason").get<std::string>() + "\n";
    }
    if (const std::string because = none_because(answer); !because.empty())
      text_ += "  nothing: " + because + "\n";
    return answer;
  }

  std::string plugin_;
  std::string text_;
};

}  // namespace autotuned::plugins
