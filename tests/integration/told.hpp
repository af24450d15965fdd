// SPDX-License-Identifier: Apache-2.0
// What commands say in named cases of a test: a part of tests/integration/golden/FILE.txt.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden_parts.hpp"
#include "tests/integration/scene.hpp"

namespace autotuned {

// The destructor compares. HERE is the folder of the scene, BUILD that of the programs, MACHINE the key of the machine,
// and the ids of runs are RUN1, RUN2 and so on in the order in which they are named.
class Told {
 public:
  Told(const Scene& scene, std::string file)
      : here_(scene.folder().path()), file_(std::move(file)) {}
  ~Told() { tests::expect_golden_part("integration/golden/" + file_ + ".txt", text_); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  // A command ended with `code`, and said this on standard error; with `word` only the lines that have it.
  void ends(int code, const std::string& given, const Outcome& outcome,
            const std::string& word = "") {
    EXPECT_EQ(outcome.code, code) << given << "\n" << outcome.err;
    if (word.empty()) {
      add(given, outcome.err);
    } else {
      lines(given, outcome.err, word);
    }
  }
  // The same of standard output.
  void prints(int code, const std::string& given, const Outcome& outcome) {
    EXPECT_EQ(outcome.code, code) << given << "\n" << outcome.err;
    add(given, outcome.out);
  }
  // The lines of `text` with `word` in them: what else it says may depend on time or the machine.
  void lines(const std::string& given, const std::string& text, const std::string& word) {
    std::string found;
    std::istringstream all(text);
    for (std::string line; std::getline(all, line);) {
      if (line.find(word) != std::string::npos) found += line + "\n";
    }
    EXPECT_NE(found, "") << given << ": no line has \"" << word << "\":\n" << text;
    add(given, found);
  }
  // The same with N for each number, where numbers are measured or those of processes.
  void measured_lines(const std::string& given, const std::string& text, const std::string& word) {
    static const std::regex kNumber("\\b[0-9]+([.,][0-9]+)*");
    lines(given, std::regex_replace(without_places(text), kNumber, "N"), word);
  }
  void add(const std::string& given, const std::string& said) {
    text_ += without_places(given) + "\n";
    std::istringstream all(without_places(said));
    for (std::string line; std::getline(all, line);) {
      if (!is_of_others(line)) text_ += (line.empty() ? "" : "  " + line) + "\n";
    }
  }

 private:
  // What other tests and users do at the same time can add such a line to what any run says.
  static bool is_of_others(const std::string& line) {
    return line.find("processes of a run whose command has ended") != std::string::npos ||
           line.find("runs of other users may use the device") != std::string::npos;
  }
  std::string without_places(const std::string& said) {
    static const std::regex kRun("r-[0-9]{8}-[0-9a-f]{6,}");
    static const std::regex kMachine("environment_key [0-9a-f]{16}");
    const std::string text =
        std::regex_replace(tests::with_here(said, here_), kMachine, "environment_key MACHINE");
    std::string told;
    auto at = text.begin();
    for (std::sregex_iterator run(text.begin(), text.end(), kRun), end; run != end; ++run) {
      told.append(at, run->begin()->first).append(name_of(run->str()));
      at = run->begin()->second;
    }
    told.append(at, text.end());
    const std::string build = tests::build_folder().string();
    for (std::size_t found = 0; (found = told.find(build, found)) != std::string::npos;)
      told.replace(found, build.size(), "BUILD");
    return told;
  }
  std::string name_of(const std::string& run) {
    const auto known = std::ranges::find(runs_, run);
    const auto number = static_cast<std::size_t>(known - runs_.begin()) + 1;
    if (known == runs_.end()) runs_.push_back(run);
    return "RUN" + std::to_string(number);
  }

  std::filesystem::path here_;
  std::string file_;
  std::string text_;
  std::vector<std::string> runs_;
};

// A run ends before anything starts, and names its output folder, with --json and without.
inline void expect_output_folder_refused(const Scene& scene, const std::string& file) {
  Told told(scene, file);
  const Outcome listed = scene.run();
  EXPECT_EQ(listed.code, 2);
  told.add("--json", listed.json().at("diagnostics").dump(1));
  told.ends(2, "for people", scene.command({"run", scene.recipe().string()}));
  EXPECT_TRUE(scene.fake().requests().empty());
}

}  // namespace autotuned
