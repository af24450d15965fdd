// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/completions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace autotuned::daemon {

namespace {

// A command with the words that lead to it: "history backup". The program itself has none.
struct WordPlace {
  std::string words;
  const Command* command = nullptr;
};

void add_places(const Command& command, const std::string& words, std::vector<WordPlace>& places) {
  places.push_back({words, &command});
  for (const Command& below : command.commands)
    add_places(below, words.empty() ? below.name : words + " " + below.name, places);
}

std::vector<WordPlace> places_of(const Command& program) {
  std::vector<WordPlace> places;
  add_places(program, "", places);
  return places;
}

std::string replaced(std::string text, std::string_view old, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += by.size())
    text.replace(at, old.size(), by);
  return text;
}

// Between single quotation marks of a shell.
std::string quoted(const std::string& text) {
  return "'" + replaced(text, "'", "'\\''") + "'";
}

std::string joined(const std::vector<std::string>& words, const char* separator = " ") {
  return fmt::format("{}", fmt::join(words, separator));
}

bool is_argument(const CommandOption& option) {
  return option.names.empty();
}

bool takes_files(const Command& command) {
  return std::ranges::any_of(command.options, [](const CommandOption& option) {
    return is_argument(option) && option.is_file;
  });
}

bool takes_runs(const Command& command) {
  return std::ranges::any_of(command.options, [](const CommandOption& option) {
    return is_argument(option) && option.is_run;
  });
}

// Prints the names of the newest runs, one in a line, in any of the shells.
std::string newest_runs(const Command& program) {
  return program.name + " history --limit 50 2>/dev/null | grep -o \"^r-[0-9a-f-]*\"";
}

// Commands below, options, and the values that arguments take.
std::vector<std::string> words_of(const Command& command) {
  std::vector<std::string> words;
  for (const Command& below : command.commands)
    words.push_back(below.name);
  for (const CommandOption& option : command.options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
    if (is_argument(option))
      words.insert(words.end(), option.choices.begin(), option.choices.end());
  }
  return words;
}

// Patterns of a `case` for each option with a value: "'run --budget'|'run --set'".
std::string patterns(const std::vector<WordPlace>& places, bool (*is_meant)(const CommandOption&)) {
  std::vector<std::string> found;
  for (const WordPlace& place : places) {
    for (const CommandOption& option : place.command->options) {
      if (option.value.empty() || is_argument(option) || !is_meant(option)) continue;
      for (const std::string& name : option.names)
        found.push_back(quoted(place.words + " " + name));
    }
  }
  return joined(found, "|");
}

// --- zsh ------------------------------------------------------------------------------------------

// Inside the brackets of a specification of _arguments.
std::string zsh_text(std::string text) {
  for (const char* const special : {"\\", "[", "]", ":"})
    text = replaced(std::move(text), special, std::string("\\") + special);
  return text;
}

std::string zsh_action(const CommandOption& option, const Command& program) {
  if (option.is_run) return "{compadd last $(" + newest_runs(program) + ")}";
  if (!option.choices.empty()) return "(" + joined(option.choices) + ")";
  return option.is_file ? "_files" : " ";
}

// The arguments of _arguments, one in a line.
std::string zsh_specification(const Command& command, const Command& program,
                              const std::string& indent) {
  std::string text;
  for (const CommandOption& option : command.options) {
    if (is_argument(option)) {
      text += " \\\n" + indent +
              quoted("*:" + zsh_text(option.value) + ":" + zsh_action(option, program));
      continue;
    }
    for (const std::string& name : option.names) {
      text += " \\\n" + indent +
              quoted("*" + name + "[" + zsh_text(option.summary) + "]" +
                     (option.value.empty()
                          ? ""
                          : ":" + zsh_text(option.value) + ":" + zsh_action(option, program)));
    }
  }
  return text;
}

// "(name\:summary ...)" of the commands below, for _describe.
std::string zsh_commands(const Command& command) {
  std::vector<std::string> words;
  for (const Command& below : command.commands)
    words.push_back(quoted(replaced(below.name + ":" + below.summary, "\\", "\\\\")));
  return joined(words);
}

// --- fish -----------------------------------------------------------------------------------------

std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_condition(const std::string& words) {
  if (words.empty()) return "__fish_use_subcommand";
  std::string condition;
  std::string_view rest = words;
  while (!rest.empty()) {
    const std::size_t blank = std::min(rest.find(' '), rest.size());
    condition += (condition.empty() ? "" : "; and ") + std::string("__fish_seen_subcommand_from ") +
                 std::string(rest.substr(0, blank));
    rest.remove_prefix(std::min(blank + 1, rest.size()));
  }
  return condition;
}

std::string fish_option(const CommandOption& option) {
  std::string text;
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.value.empty()) text += option.is_file ? " -r -F" : " -x";
  if (!option.choices.empty()) text += " -a " + fish_quoted(joined(option.choices));
  return text + " -d " + fish_quoted(option.summary);
}

}  // namespace

std::string bash_completions(const Command& program) {
  const std::vector<WordPlace> places = places_of(program);
  std::vector<std::string> commands;
  for (const WordPlace& place : places) {
    const std::size_t blank = place.words.rfind(' ');
    const bool is_below = blank != std::string::npos;
    if (place.words.empty()) continue;
    // There are no words before a first command.
    commands.push_back(quoted(is_below ? place.words : " " + place.words));
  }
  std::string text = fmt::format(
      "# Completions of {0} for bash: . <({0} completions bash)\n"
      "_{0}() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  local command= words= files= runs= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$command ${{COMP_WORDS[i]}}\" in\n"
      "      {1})\n"
      "        command=${{command:+$command }}${{COMP_WORDS[i]}} ;;\n"
      "    esac\n"
      "  done\n",
      program.name, joined(commands, "|"));
  text += "  case \"$command $previous\" in\n";
  for (const WordPlace& place : places) {
    for (const CommandOption& option : place.command->options) {
      if (is_argument(option) || option.choices.empty()) continue;
      for (const std::string& name : option.names) {
        text +=
            fmt::format("    {}) mapfile -t COMPREPLY < <(compgen -W {} -- \"$word\"); return ;;\n",
                        quoted(place.words + " " + name), quoted(joined(option.choices)));
      }
    }
  }
  const std::string of_files = patterns(
      places, [](const CommandOption& option) { return option.is_file && option.choices.empty(); });
  const std::string of_others = patterns(places, [](const CommandOption& option) {
    return !option.is_file && option.choices.empty();
  });
  if (!of_files.empty()) {
    text += "    " + of_files + ") mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n";
  }
  if (!of_others.empty()) text += "    " + of_others + ") return ;;\n";
  text += "  esac\n  case $command in\n";
  for (const WordPlace& place : places) {
    text += fmt::format("    {}) words={}{}{} ;;\n", quoted(place.words),
                        quoted(joined(words_of(*place.command))),
                        takes_files(*place.command) ? " files=yes" : "",
                        takes_runs(*place.command) ? " runs=yes" : "");
  }
  text += fmt::format(
      "  esac\n"
      "  if [[ $runs && $word != -* ]]; then\n"
      "    words+=\" last $({1})\"\n"
      "  fi\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
      "  if [[ $files && $word != -* ]]; then\n"
      "    mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen -f -- \"$word\")\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _{0} {0}\n",
      program.name, newest_runs(program));
  return text;
}

std::string zsh_completions(const Command& program) {
  std::string text = fmt::format(
      "#compdef {0}\n"
      "# Completions of {0} for zsh: {0} completions zsh > ~/.zfunc/_{0}, with ~/.zfunc in fpath\n"
      "_{0}() {{\n"
      "  local -a commands\n"
      "  if (( CURRENT == 2 )); then\n"
      "    commands=({1})\n"
      "    _describe command commands\n"
      "    _arguments{2}\n"
      "    return\n"
      "  fi\n"
      "  shift words; (( CURRENT-- ))\n"
      "  case $words[1] in\n",
      program.name, zsh_commands(program), zsh_specification(program, program, "      "));
  for (const Command& command : program.commands) {
    text += "    " + command.name + ")\n";
    if (!command.commands.empty()) {
      text += "      case $words[2] in\n";
      for (const Command& below : command.commands) {
        text += fmt::format("        {}) shift words; (( CURRENT-- )); _arguments{}; return ;;\n",
                            below.name, zsh_specification(below, program, "          "));
      }
      text += fmt::format(
          "      esac\n      commands=({})\n      (( CURRENT == 2 )) && _describe command "
          "commands\n",
          zsh_commands(command));
    }
    text += "      _arguments" + zsh_specification(command, program, "        ") + " ;;\n";
  }
  return text + fmt::format("  esac\n}}\n_{0} \"$@\"\n", program.name);
}

std::string fish_completions(const Command& program) {
  std::string text = fmt::format(
      "# Completions of {0} for fish: {0} completions fish | source\n"
      "complete -c {0} -f\n",
      program.name);
  for (const WordPlace& place : places_of(program)) {
    const std::string begin =
        "complete -c " + program.name + " -n " + fish_quoted(fish_condition(place.words));
    for (const Command& below : place.command->commands)
      text += begin + " -a " + below.name + " -d " + fish_quoted(below.summary) + "\n";
    for (const CommandOption& option : place.command->options) {
      if (!is_argument(option)) {
        text += begin + fish_option(option) + "\n";
      } else if (!option.choices.empty()) {
        text += begin + " -a " + fish_quoted(joined(option.choices)) + "\n";
      }
    }
    if (takes_runs(*place.command))
      text += begin + " -a " + fish_quoted("last (" + newest_runs(program) + ")") + "\n";
    if (takes_files(*place.command)) text += begin + " -F\n";
  }
  return text;
}

}  // namespace autotuned::daemon
