// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/options/command_texts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "daemon/cli/options/shared_options.hpp"
#include "daemon/cli/options/usage_forms.hpp"

namespace autotuned::daemon {

namespace {

// "TEXT:{a,b}" names the choices behind the type.
std::vector<std::string> choices_in(std::string_view type) {
  std::vector<std::string> choices;
  const std::size_t begin = type.find(":{");
  const std::size_t end = type.find('}');
  if (begin == std::string_view::npos || end == std::string_view::npos) return choices;
  std::string_view rest = type.substr(begin + 2, end - begin - 2);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    choices.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return choices;
}

CommandOption option_of(const CLI::Option& option) {
  CommandOption described;
  for (const std::string& name : option.get_snames())
    described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    described.names.push_back("--" + name);
  const std::string type = option.get_type_name();
  const std::string name = type.substr(0, type.find(':'));
  described.is_file = name == "FILE" || name == "DIR" || name == "PATH";
  described.is_run = name == kRunType;
  if (described.names.empty()) {
    described.value = option.get_single_name();
  } else if (option.get_items_expected_max() > 0) {
    described.value = name;
  }
  described.summary = option.get_description();
  described.choices = choices_in(type);
  described.is_required = option.get_required();
  return described;
}

std::vector<std::string> names_below(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(below->get_name());
  return names;
}

// The command to which the first words lead, and those words: "autotuned history prune".
struct NamedCommand {
  const CLI::App* command = nullptr;
  std::string words;
};

NamedCommand command_of(const CLI::App& app, const std::vector<char*>& words) {
  NamedCommand named{&app, app.get_name()};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::vector<std::string> below = names_below(*named.command);
    const std::string word = words[i];
    if (std::ranges::find(below, word) == below.end()) continue;
    named.words += " " + word;
    named.command = named.command->get_subcommand(word);
  }
  return named;
}

// An option that the command does not have, with the nearest that it has.
std::optional<std::string> unknown_option(const NamedCommand& named,
                                          const std::vector<char*>& words) {
  for (const char* const word : words) {
    const std::string_view text = word;
    if (text == "--") break;
    const bool is_short = text.size() >= 2 && text[0] == '-' && text[1] != '-';
    const std::string name(is_short ? text.substr(0, 2) : text.substr(0, text.find('=')));
    if (!name.starts_with('-') || name.size() < 2) continue;
    if (named.command->get_option_no_throw(name) != nullptr) continue;
    std::vector<std::string> known;
    for (const CLI::Option* option : named.command->get_options()) {
      for (const std::string& one : option->get_lnames())
        known.push_back("--" + one);
    }
    const auto near = nearest_name(text.substr(0, text.find('=')), known);
    return "`" + named.words + "` has no option '" + short_for_message(name) + "'; " +
           (near ? "did you mean '" + *near + "'?" : "`" + named.words + " --help` lists them");
  }
  return std::nullopt;
}

// The text between `begin` and `end`; empty if one of them is missing.
std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return {};
  const std::size_t at = from + begin.size();
  const std::size_t to = text.find(end, at);
  return to == std::string::npos ? std::string() : text.substr(at, to - at);
}

// The value that an option does not take, with those that it takes: "a,b", or "a->0,b->1".
std::string expected_text(const std::string& option, const std::string& value,
                          const std::string& choices) {
  std::vector<std::string> names = choices_in(":{" + choices + "}");
  std::string list;
  for (std::string& name : names) {
    name = name.substr(0, name.find("->"));
    list += (list.empty() ? "" : ", ") + name;
  }
  const auto near = nearest_name(value, names);
  return option + ": expected one of " + list + ", found '" + short_for_message(value) + "'" +
         (near ? ", did you mean '" + *near + "'?" : "");
}

// The message for a value outside its range, "... not in range 1 to 64".
std::string outside_text(const std::string& option, const std::string& value,
                         const std::string& what) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (*end != '\0' || !std::isfinite(number))
    return option + ": expected a number, found '" + short_for_message(value) + "'";
  const std::string shown = option + ": " + short_for_message(value);
  const std::size_t to = what.rfind(" to ");
  const double most = to == std::string::npos ? HUGE_VAL : std::strtod(what.c_str() + to + 4, &end);
  if (number > most) return shown + " is too large, the most is " + what.substr(to + 4);
  const std::string least = between(what, " not in range ", " to ");
  if (number < std::strtod(least.c_str(), &end) || std::trunc(number) == number)
    return shown + " is too small";
  return option + ": expected a whole number, found '" + short_for_message(value) + "'";
}

// The sentences of CLI11 about values, as a person says them.
std::string in_our_words(const std::string& what) {
  const std::string option = what.substr(0, what.find(':'));
  if (const std::string choices = between(what, " value in {", "}"); !choices.empty())
    return expected_text(option, between(what, ": Check ", " value in {"), choices);
  if (const std::string choices = between(what, " not in {", "}"); !choices.empty())
    return expected_text(option, between(what, ": ", " not in {"), choices);
  if (const std::string value = between(what, ": Value ", " not in range"); !value.empty())
    return outside_text(option, value, what);
  if (const std::string value = between(what, ": 1 required ", " missing"); !value.empty())
    return option + ": its value is missing, " + value;
  if (const std::string name = between(what, "Could not convert: ", " = "); !name.empty())
    return name + ": expected a number, found '" +
           short_for_message(what.substr(what.find(" = ") + 3)) + "'";
  const std::string_view required = " is required";
  if (what.ends_with(required)) {
    return what.substr(0, what.size() - required.size()) + " is missing";
  }
  return what;
}

}  // namespace

std::string in_80_columns(std::string_view help) {
  constexpr std::size_t kColumns = 80;
  constexpr std::size_t kDescriptions = 30;  // the column where CLI11 begins them
  std::string text;
  while (!help.empty()) {
    const std::size_t end = std::min(help.find('\n'), help.size());
    std::string line(help.substr(0, end));
    help.remove_prefix(std::min(end + 1, help.size()));
    // "  --json      Print JSON": two blanks at least stand before a description.
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t gap = line.find("  ", begin);
    const std::size_t described = line.find_first_not_of(' ', gap);
    // One blank, where the name with its options ends just before that column.
    const bool is_close = described == std::string::npos && begin > 0 && begin < kDescriptions &&
                          line.size() > kDescriptions && line[kDescriptions - 1] == ' ';
    const std::size_t otherwise = is_close ? kDescriptions : begin;
    const std::size_t indent = described == std::string::npos ? otherwise : described;
    while (line.size() > kColumns) {
      std::size_t blank = line.rfind(' ', kColumns);
      if (blank == std::string::npos || blank <= indent) blank = line.find(' ', indent + 1);
      if (blank == std::string::npos) break;  // one long word
      text += line.substr(0, blank) + "\n";
      line = std::string(indent, ' ') + line.substr(blank + 1);
    }
    text += line + "\n";
  }
  return text;
}

std::optional<std::string> unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) return std::nullopt;
  const std::string name = argv[1];
  const std::vector<std::string> known = names_below(app);
  if (name.starts_with('-') || std::ranges::find(known, name) != known.end()) return std::nullopt;
  const std::string beginning = "there is no command '" + short_for_message(name) + "'; ";
  constexpr std::size_t kLongestName = 255;  // of a file
  for (const char* const ending : {".yaml", ".yml", ".py"}) {
    if (name.ends_with(ending) && name.size() <= kLongestName)
      return beginning + "`autotuned run " + shell_word(name) + "` runs that file";
  }
  const auto near = nearest_name(name, known);
  return beginning + (near ? "did you mean '" + *near + "'?" : "`autotuned --help` lists them");
}

std::string mistake_text(const CLI::App& app, const CLI::ParseError& error,
                         const std::vector<char*>& words) {
  const NamedCommand named = command_of(app, words);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    if (const auto unknown = unknown_option(named, words)) return "error: " + *unknown;
  }
  return "error: " + named.words + ": " + in_our_words(error.what()) + "; `" + named.words +
         " --help` says what it takes";
}

Command table_of(const CLI::App& app) {
  Command command{.name = app.get_name(), .summary = app.get_description()};
  const auto usage = std::dynamic_pointer_cast<UsageForms>(app.get_formatter());
  if (usage != nullptr) command.forms = usage->forms();
  for (const CLI::Option* option : app.get_options())
    command.options.push_back(option_of(*option));
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; }))
    command.commands.push_back(table_of(*below));
  return command;
}

}  // namespace autotuned::daemon
