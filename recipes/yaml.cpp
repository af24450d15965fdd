// SPDX-License-Identifier: Apache-2.0
#include "recipes/yaml.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "base/utf8.hpp"

namespace autotuned::recipes {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxNodes = 100'000;

// Thrown through yaml-cpp to stop reading a document.
struct Stop {};

struct Place {
  int line = 0;
  int column = 0;
};

Place place_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1};
}

// Builds the tree from the parser's events.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, std::vector<Diagnostic>& problems)
      : file_(file), problems_(problems) {}

  YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Place place = place_of(mark);
    // yaml-cpp reports `key:` without a value at the next token: use the place of the key.
    if (!open_.empty() && open_.back().key && place.line != open_.back().key->line) {
      place = {open_.back().key->line, open_.back().key->column};
    }
    refuse_anchor(place, anchor);
    add(node(YamlNode::Kind::null, place));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    report(place_of(mark), "aliases (*name) are not allowed in a recipe; repeat the value");
    add(node(YamlNode::Kind::null, place_of(mark)));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(place_of(mark), tag);
    refuse_anchor(place_of(mark), anchor);
    YamlNode scalar = node(YamlNode::Kind::scalar, place_of(mark));
    scalar.scalar = value;
    scalar.is_quoted = tag == "!";
    add(std::move(scalar));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Kind::sequence, place_of(mark), tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Kind::map, place_of(mark), tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  // A sequence or map that has not ended yet.
  struct Open {
    YamlNode node;
    std::optional<YamlNode> key;                     // key of the entry that waits for its value
    std::unordered_map<std::string, int> key_lines;  // for duplicates
  };

  YamlNode node(YamlNode::Kind kind, Place place) {
    if (++node_count_ > kMaxNodes) {
      report(place, "the file has more than 100,000 values");
      throw Stop{};
    }
    YamlNode result;
    result.kind = kind;
    result.line = place.line;
    result.column = place.column;
    return result;
  }

  void open(YamlNode::Kind kind, Place place, const std::string& tag, YAML::anchor_t anchor) {
    refuse_tag(place, tag);
    refuse_anchor(place, anchor);
    if (open_.size() >= kMaxDepth) {
      report(place, "lists and maps are nested more than 32 deep");
      throw Stop{};
    }
    open_.push_back({node(kind, place), std::nullopt, {}});
  }

  void close() {
    YamlNode done = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(done));
  }

  void add(YamlNode value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::sequence) {
      parent.node.items.push_back(std::move(value));
    } else if (!parent.key) {
      parent.key = std::move(value);
    } else {
      add_entry(parent, std::move(value));
    }
  }

  void add_entry(Open& parent, YamlNode value) {
    YamlNode key = *std::exchange(parent.key, std::nullopt);
    const Place place{key.line, key.column};
    if (key.kind != YamlNode::Kind::scalar) {
      report(place, "a key must be a word, not a list, a map or nothing");
      return;
    }
    const auto [first, is_new] = parent.key_lines.emplace(key.scalar, key.line);
    if (!is_new) {
      report(place, "the key " + quote_for_message(key.scalar) + " is already in line " +
                        std::to_string(first->second));
      return;
    }
    parent.node.entries.push_back({std::move(key), std::move(value)});
  }

  void refuse_anchor(Place place, YAML::anchor_t anchor) {
    if (anchor != 0) report(place, "anchors (&name) are not allowed in a recipe");
  }

  // Without a tag, yaml-cpp reports "?" for a plain value and "!" for a quoted one.
  void refuse_tag(Place place, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      report(place, "tags (" + quote_for_message(tag) + ") are not allowed in a recipe");
    }
  }

  void report(Place place, std::string message) {
    problems_.push_back({file_, place.line, place.column, std::move(message)});
    if (problems_.size() >= kMaxProblems) throw Stop{};
  }

  const std::string& file_;
  std::vector<Diagnostic>& problems_;
  std::vector<Open> open_;
  std::size_t node_count_ = 0;
  YamlNode root_;
};

// Only notices whether there is another document.
class AnotherDocument final : public YAML::EventHandler {
 public:
  std::optional<Place> place;

  void OnDocumentStart(const YAML::Mark& mark) override {
    place = place_of(mark);
    throw Stop{};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// Returns the first place that is not UTF-8. yaml-cpp would guess another encoding and go on.
std::optional<Place> first_non_text(std::string_view text) {
  Place place{1, 1};
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    const bool is_control =
        (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7F;
    if (length == 0 || is_control) return place;
    if (byte == '\n') {
      place = {place.line + 1, 1};
    } else {
      place.column += static_cast<int>(length);
    }
    text.remove_prefix(length);
  }
  return std::nullopt;
}

// Advice for a tab in the indentation. The parser's own message, such as "illegal map value", does not name it.
std::string tab_advice(std::string_view text, int line) {
  for (int at = 1; at < line && !text.empty(); ++at)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(first).starts_with('\t')
             ? "; the line begins with a tab: indent it with spaces"
             : "";
}

}  // namespace

std::string Diagnostic::text() const {
  // No file has such a name: it was mistyped or made up, and its end says nothing.
  constexpr std::size_t kMaxBytesOfName = 255;
  const bool is_shown_whole = file.size() - (file.rfind('/') + 1) <= kMaxBytesOfName;
  std::string result = is_shown_whole ? file : quote_for_message(file);
  if (line > 0) result += ':' + std::to_string(line) + ':' + std::to_string(column);
  return result + ": " + message;
}

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.scalar == key) return &value;
  }
  return nullptr;
}

YamlReading read_as_far_as_possible(std::string_view text, const std::string& file) {
  YamlReading reading;
  if (text.size() > kMaxYamlBytes) {
    reading.problems.push_back({file, 0, 0, "the file is larger than 1 MiB"});
    return reading;
  }
  if (const auto place = first_non_text(text)) {
    reading.problems.push_back(
        {file, place->line, place->column, "the file is not UTF-8 text from here on"});
    return reading;
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder tree(file, reading.problems);
    parser.HandleNextDocument(tree);
    reading.root = tree.take_root();
    if (reading.root->line == 0) reading.root->line = reading.root->column = 1;

    AnotherDocument another;
    try {
      parser.HandleNextDocument(another);
    } catch (const Stop&) {
      reading.problems.push_back({file, another.place->line, another.place->column,
                                  "a recipe is one document; a second one starts here"});
    }
  } catch (const Stop&) {
    reading.root.reset();
  } catch (const YAML::Exception& error) {
    const Place place = place_of(error.mark);
    reading.root.reset();
    reading.problems.push_back({file, place.line, place.column,
                                "not valid YAML: " + error.msg + tab_advice(text, place.line)});
  }
  return reading;
}

tl::expected<YamlNode, std::vector<Diagnostic>> parse_yaml(std::string_view text,
                                                           std::string file) {
  YamlReading reading = read_as_far_as_possible(text, file);
  if (!reading.problems.empty()) return tl::unexpected(std::move(reading.problems));
  return std::move(*reading.root);
}

}  // namespace autotuned::recipes
