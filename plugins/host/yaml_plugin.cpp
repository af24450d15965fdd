// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/yaml_plugin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "plugins/host/expression.hpp"
#include "plugins/host/known_names.hpp"
#include "plugins/host/needs.hpp"
#include "plugins/host/values.hpp"
#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using recipes::Diagnostic;
using recipes::YamlNode;

constexpr std::size_t kMaxItems = 32;

// One entry of `try`: knobs that change together, of which at most one has several values.
using Alternative = std::vector<std::pair<std::string, Values>>;

// One entry of `when`: a condition, and what is said instead of its text when it does not hold.
struct Requirement {
  Condition condition;
  std::optional<Sentence> otherwise;
};

struct Rules {
  std::string name;
  std::string version;
  std::string summary;
  std::vector<std::string> needs;
  std::vector<Requirement> when;
  std::vector<Alternative> alternatives;
  double expected_gain_ratio = 1.0;
  std::optional<Saving> saving;  // instead of that
  Sentence reason;
};

class YamlPolicy final : public Policy {
 public:
  explicit YamlPolicy(Rules rules) : rules_(std::move(rules)) {}

  [[nodiscard]] const std::string& name() const override { return rules_.name; }

  Result<Json> propose(const Json& json) override {
    const sdk::Situation situation = sdk::Situation::of(json);
    // Conditions may go by what a script does not have either.
    if (situation.is_script()) {
      std::string missing = missing_knob(situation);
      if (!missing.empty()) return sdk::none(std::move(missing)).to_json();
    }
    for (const auto& [condition, otherwise] : rules_.when) {
      std::string failure = condition.failure(situation, otherwise);
      if (!failure.empty()) return sdk::none(std::move(failure)).to_json();
    }
    sdk::Answer answer;
    for (const Alternative& alternative : rules_.alternatives) {
      if (auto added = add(alternative, situation, answer); !added) {
        return fail(ErrorKind::invalid, added.error(), "plugin " + rules_.name);
      }
    }
    if (!answer.candidates.empty()) {
      answer.none_because.clear();
    } else if (answer.none_because.empty()) {
      answer.none_because = "everything that it would try is set or was tried";
    }
    return answer.to_json();
  }

 private:
  // Why nothing of it can be changed here, for want of a knob; empty where something can.
  [[nodiscard]] std::string missing_knob(const sdk::Situation& situation) const {
    std::string missing;
    for (const Alternative& alternative : rules_.alternatives) {
      const auto found = std::ranges::find_if(
          alternative, [&](const auto& turned) { return !situation.knob(turned.first); });
      if (found == alternative.end()) return {};
      missing = situation.obstacle(found->first);
    }
    return missing;
  }

  // Appends the changes of `alternative` that are new; else why there is none, where that is known.
  Parsed<void> add(const Alternative& alternative, const sdk::Situation& situation,
                   sdk::Answer& answer) const {
    std::vector<Json> changes = {Json::object()};
    for (const auto& [name, values] : alternative) {
      std::string obstacle = situation.obstacle(name);
      if (!obstacle.empty()) {
        answer.none_because = std::move(obstacle);
        return {};
      }
      auto resolved = values.resolve(situation, *situation.knob(name));
      if (!resolved) return tl::unexpected(std::move(resolved.error()));
      std::vector<Json> extended;
      for (const Json& change : changes) {
        for (const Json& value : *resolved) {
          Json next = change;
          if (value != sdk::member(situation.section("incumbent"), name)) next[name] = value;
          extended.push_back(std::move(next));
        }
      }
      changes = std::move(extended);
    }
    for (Json& change : changes) {
      const bool is_known = std::ranges::any_of(
          answer.candidates, [&](const sdk::Candidate& known) { return known.change == change; });
      if (change.empty() || is_known || situation.has_lost(change)) continue;
      add_one(std::move(change), situation, answer);
    }
    return {};
  }

  void add_one(Json change, const sdk::Situation& situation, sdk::Answer& answer) const {
    double expected = rules_.expected_gain_ratio;
    std::optional<double> share;
    if (rules_.saving) {
      share = rules_.saving->share(situation);
      // A trial of a script's makes real steps: not for a guess.
      if (!share && situation.is_script()) {
        answer.none_because = "what it would save was not measured here";
        return;
      }
      expected = share ? sdk::gain_without(rules_.saving->hoped_ratio() * *share) : 1.0;
    }
    answer.add(std::move(change), expected, rules_.reason.fill(situation), share);
  }

  Rules rules_;
};

// Reads the document into Rules and collects every mistake.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& file)
      : file_(file.string()), stem_(file.stem().string()) {}

  Rules read(const YamlNode& document) {
    static const std::vector<std::string> kKeys = {"plugin", "name", "version", "summary", "needs",
                                                   "when",   "try",  "expect",  "reason"};
    Rules rules;
    if (document.kind != YamlNode::Kind::map) {
      report(document, "a YAML plugin is a map that starts with 'plugin: 1'");
      return rules;
    }
    for (const auto& [key, value] : document.entries) {
      if (std::ranges::find(kKeys, key.scalar) != kKeys.end()) continue;
      const auto nearest = nearest_name(key.scalar, kKeys);
      report(key, fmt::format("unknown key '{}'{}", key.scalar,
                              nearest ? fmt::format("; did you mean '{}'?", *nearest) : ""));
    }
    if (const YamlNode* version = required(document, "plugin"); version != nullptr) {
      if (version->scalar != "1") {
        report(*version, fmt::format("this file is written for version '{}' of YAML plugins, this "
                                     "program reads version 1",
                                     version->scalar));
      }
    }
    rules.name = text(document, "name");
    if (const YamlNode* name = document.find("name"); name != nullptr && rules.name != stem_) {
      report(*name, fmt::format("the plugin calls itself '{}' but its file is '{}.yaml'",
                                rules.name, stem_));
    }
    rules.version = text(document, "version");
    rules.summary = text(document, "summary");
    read_needs(document, rules);
    read_conditions(document, rules);
    read_alternatives(document, rules);
    read_expectation(document, rules);
    if (const YamlNode* reason = required(document, "reason"); reason != nullptr) {
      keep(*reason, Sentence::parse(reason->scalar), rules.reason);
      check_names(*reason, rules.reason.facts());
    }
    return rules;
  }

  [[nodiscard]] std::vector<Diagnostic> take_diagnostics() { return std::move(diagnostics_); }

 private:
  void report(const YamlNode& node, std::string message) {
    diagnostics_.push_back({file_, node.line, node.column, std::move(message)});
  }

  template <class T>
  void keep(const YamlNode& node, Parsed<T> parsed, T& into) {
    if (parsed) {
      into = std::move(*parsed);
    } else {
      report(node, std::move(parsed.error()));
    }
  }

  // Reports each name that nothing has.
  void check_names(const YamlNode& node, const std::vector<const Fact*>& facts) {
    for (const Fact* const fact : facts) {
      if (auto reason = why_unknown(*fact)) report(node, std::move(*reason));
    }
  }

  // The scalar under `key`, or null after a report.
  const YamlNode* required(const YamlNode& document, const char* key) {
    const YamlNode* const node = document.find(key);
    if (node == nullptr) {
      report(document, fmt::format("the key '{}' is missing", key));
    } else if (node->kind != YamlNode::Kind::scalar) {
      report(*node, fmt::format("'{}' must be a single value", key));
      return nullptr;
    }
    return node;
  }

  std::string text(const YamlNode& document, const char* key) {
    const YamlNode* const node = required(document, key);
    return node == nullptr ? std::string() : node->scalar;
  }

  // The items of a list under `key`, or of nothing after a report.
  const std::vector<YamlNode>& list(const YamlNode& node, const char* key) {
    static const std::vector<YamlNode> kNone;
    if (node.kind != YamlNode::Kind::sequence || node.items.empty()) {
      report(node, fmt::format("'{}' must be a list with at least one entry", key));
      return kNone;
    }
    if (node.items.size() > kMaxItems) {
      report(node, fmt::format("'{}' has {} entries; at most {} are read", key, node.items.size(),
                               kMaxItems));
      return kNone;
    }
    return node.items;
  }

  // One word, or a list of them.
  void read_needs(const YamlNode& document, Rules& rules) {
    const YamlNode* const needs = document.find("needs");
    if (needs == nullptr) return;
    const bool is_one = needs->kind == YamlNode::Kind::scalar;
    for (const YamlNode& item : is_one ? std::vector<YamlNode>{*needs} : list(*needs, "needs")) {
      if (item.kind != YamlNode::Kind::scalar) {
        report(item, "an entry of 'needs' must be a single word, such as cuda");
      } else if (auto reason = why_no_need(item.scalar)) {
        report(item, std::move(*reason));
      } else {
        rules.needs.push_back(item.scalar);
      }
    }
  }

  void read_conditions(const YamlNode& document, Rules& rules) {
    const YamlNode* const when = document.find("when");
    if (when == nullptr) return;
    for (const YamlNode& item : list(*when, "when")) {
      const bool has_sentence = item.kind == YamlNode::Kind::map && item.entries.size() == 1 &&
                                item.entries.front().value.kind == YamlNode::Kind::scalar;
      if (item.kind != YamlNode::Kind::scalar && !has_sentence) {
        report(item,
               "an entry of 'when' must be a condition such as 'step.data_wait_ratio > 2%', or "
               "'CONDITION: what to say when it does not hold'");
        continue;
      }
      auto condition =
          Condition::parse(has_sentence ? item.entries.front().key.scalar : item.scalar);
      if (!condition) {
        report(item, std::move(condition.error()));
        continue;
      }
      check_names(item, condition->facts());
      Requirement requirement{std::move(*condition), std::nullopt};
      if (has_sentence) {
        auto sentence = Sentence::parse(item.entries.front().value.scalar);
        if (!sentence) {
          report(item, std::move(sentence.error()));
          continue;
        }
        check_names(item.entries.front().value, sentence->facts());
        requirement.otherwise = std::move(*sentence);
      }
      rules.when.push_back(std::move(requirement));
    }
  }

  void read_alternatives(const YamlNode& document, Rules& rules) {
    const YamlNode* const tried = document.find("try");
    if (tried == nullptr) {
      report(document, "the key 'try' is missing");
      return;
    }
    for (const YamlNode& item : list(*tried, "try")) {
      if (item.kind != YamlNode::Kind::map || item.entries.empty()) {
        report(item,
               "an entry of 'try' must be a map of knobs to values, such as {batch_size: 64}");
        continue;
      }
      Alternative alternative;
      int several = 0;
      for (const auto& [key, value] : item.entries) {
        if (auto reason = why_no_knob(key.scalar)) report(key, std::move(*reason));
        Values values = read_values(key.scalar, value);
        several += values.may_be_several() ? 1 : 0;
        alternative.emplace_back(key.scalar, std::move(values));
      }
      if (several > 1) {
        report(item, "only one knob of an entry may have several values; write several entries");
      }
      rules.alternatives.push_back(std::move(alternative));
    }
  }

  Values read_values(std::string_view knob, const YamlNode& node) {
    if (node.kind == YamlNode::Kind::scalar) return read_value(knob, node);
    Values values;
    for (const YamlNode& item : list(node, "a knob's values")) {
      if (item.kind != YamlNode::Kind::scalar) {
        report(item, "a knob's value must be a single value");
        continue;
      }
      values.append(read_value(knob, item));
    }
    return values;
  }

  Values read_value(std::string_view knob, const YamlNode& node) {
    Values value;
    keep(node, Values::parse_scalar(node.scalar, node.is_quoted), value);
    check_names(node, value.facts());
    for (const Values::Literal* const literal : value.literals()) {
      if (auto reason = why_no_value(knob, *literal)) report(node, std::move(*reason));
    }
    return value;
  }

  void read_expectation(const YamlNode& document, Rules& rules) {
    const YamlNode* const expect = required(document, "expect");
    if (expect == nullptr) return;
    if (Saving::is_meant(expect->scalar)) {
      auto saving = Saving::parse(expect->scalar);
      if (!saving) {
        report(*expect, std::move(saving.error()));
      } else {
        check_names(*expect, saving->facts());
        rules.saving = std::move(*saving);
      }
      return;
    }
    const auto ratio = parse_ratio(expect->scalar);
    if (ratio && *ratio > 1.0 && *ratio <= 20.0) {
      rules.expected_gain_ratio = *ratio;
    } else {
      report(*expect,
             fmt::format("'{}' is no expected gain; expected a ratio of rates above 1 and up "
                         "to 20, such as 1.1, or what is saved of a share, such as "
                         "15% of operators.gemm_conv_ratio",
                         expect->scalar));
    }
  }

  std::string file_;
  std::string stem_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace

tl::expected<YamlPlugin, std::vector<Diagnostic>> parse_yaml_plugin(
    std::string_view text, const std::filesystem::path& file) {
  const auto document = recipes::parse_yaml(text, file.string());
  if (!document) return tl::unexpected(document.error());
  Reader reader(file);
  Rules rules = reader.read(*document);
  std::vector<Diagnostic> diagnostics = reader.take_diagnostics();
  if (!diagnostics.empty()) return tl::unexpected(std::move(diagnostics));
  YamlPlugin plugin{rules.version, rules.summary, nullptr, rules.needs};
  plugin.policy = std::make_shared<YamlPolicy>(std::move(rules));
  return plugin;
}

Result<YamlPlugin> read_yaml_plugin(const std::filesystem::path& file) {
  const Result<std::string> text = read_file(file, recipes::kMaxYamlBytes);
  if (!text) return tl::unexpected(text.error());
  auto plugin = parse_yaml_plugin(*text, file);
  if (plugin) return std::move(*plugin);
  std::string mistakes;
  for (const Diagnostic& diagnostic : plugin.error()) {
    mistakes += (mistakes.empty() ? "" : "; ") + diagnostic.text();
  }
  return fail(ErrorKind::invalid, std::move(mistakes));
}

}  // namespace autotuned::plugins
