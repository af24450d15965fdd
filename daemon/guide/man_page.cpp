// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/man_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

namespace autotuned::daemon {

namespace {

// Nothing of it is taken for a request or an escape, and hyphens can be copied.
std::string roff(std::string_view text) {
  std::string safe;
  bool is_line_begin = true;
  for (const char c : text) {
    if (is_line_begin && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
    is_line_begin = c == '\n';
  }
  return safe;
}

std::string upper(std::string text) {
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

// " \-\- COMMAND...": placeholders are in italics, unlike what is typed as it is.
std::string form_text(const std::string& form) {
  std::string text;
  std::istringstream words(form);
  for (std::string word; words >> word;)
    text += word.starts_with('-') ? " " + roff(word) : " \\fI" + roff(word) + "\\fR";
  return text;
}

// "RECIPE", "[RECIPE]", "[OPTIONS]"; each form in a line of its own.
std::string synopsis(const std::string& words, const Command& command) {
  std::string text = "\\fB" + roff(words) + "\\fR";
  const bool has_options = std::ranges::any_of(
      command.options, [](const auto& option) { return !option.names.empty(); });
  if (has_options) text += " [OPTIONS]";
  if (!command.forms.empty()) {
    std::string lines;
    for (const std::string& form : command.forms)
      lines += (lines.empty() ? "" : "\n.br\n") + text + form_text(form);
    return lines;
  }
  for (const CommandOption& option : command.options) {
    if (!option.names.empty()) continue;
    text += option.is_required ? " \\fI" + roff(option.value) + "\\fR"
                               : " [\\fI" + roff(option.value) + "\\fR]";
  }
  return text;
}

std::string options_text(const Command& command) {
  std::string text;
  for (const CommandOption& option : command.options) {
    std::string names;
    for (const std::string& name : option.names)
      names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
    if (!option.value.empty())
      names += (names.empty() ? "\\fI" : " \\fI") + roff(option.value) + "\\fR";
    text += ".TP\n" + names + "\n" + roff(option.summary);
    if (!option.choices.empty()) text += roff(fmt::format(": {}", fmt::join(option.choices, ", ")));
    text += ".\n";
  }
  return text;
}

void add_command(const Command& command, const std::string& before, std::string& text) {
  const std::string words = before + " " + command.name;
  text += ".SS \"" + roff(words) + "\"\n" + synopsis(words, command) + "\n.PP\n" +
          roff(command.summary) + ".\n" + options_text(command);
  for (const Command& below : command.commands)
    add_command(below, words, text);
}

}  // namespace

std::string man_page(const Command& program, const ManPage& page) {
  std::string text = fmt::format(".TH {} 1 \"{}\" \"{} {}\" \"User Commands\"\n",
                                 upper(program.name), page.date, program.name, page.version) +
                     ".SH NAME\n" +
                     roff(program.name + " - tunes training jobs by measured trials") + "\n" +
                     ".SH SYNOPSIS\n\\fB" + roff(program.name) +
                     "\\fR \\fICOMMAND\\fR [OPTIONS]\n" + ".SH DESCRIPTION\n";
  std::string description = page.description;
  for (std::size_t at = 0; (at = description.find("\n\n", at)) != std::string::npos; at += 2)
    description.replace(at, 2, "\n\x01\n");
  description = roff(description);
  for (std::size_t at = 0; (at = description.find('\x01', at)) != std::string::npos; at += 3)
    description.replace(at, 1, ".PP");
  text += description + "\n.SH OPTIONS\n" + options_text(program) + ".SH COMMANDS\n";
  for (const Command& command : program.commands)
    add_command(command, program.name, text);
  return text + ".SH \"EXIT STATUS\"\n" + roff(page.exit_codes) + "\n";
}

}  // namespace autotuned::daemon
