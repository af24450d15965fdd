// SPDX-License-Identifier: Apache-2.0
// Runs the script of a page with Node.js in a browser that is made of pieces (page/browser.js).
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>

#include "base/file.hpp"
#include "base/process/process.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"

namespace autotuned::daemon {

// Skips where there is no Node.js.
class PageScriptTest : public testing::Test {
 protected:
  void SetUp() override {
    if (node().empty()) {
      GTEST_SKIP() << "Node.js is not installed: scripts/setup --node installs it";
    }
  }

  // The page in this file must be as the scene of `check`, a script below tests/daemon, says.
  void expect_scene_of(const std::string& check, const std::string& scene,
                       const std::filesystem::path& page, const std::string& more) const {
    const std::filesystem::path log = folder_ / "log";
    ProcessSpec spec;
    spec.program = node();
    spec.arguments = {tests::source_folder() / "tests/daemon" / check, scene, page, more};
    spec.environment = environment_of({"PATH"});
    spec.log = log;
    auto process = Process::start(spec);
    ASSERT_TRUE(process) << process.error().message();
    const auto exit = process->wait(std::chrono::seconds(50));
    ASSERT_TRUE(exit) << "the script does not end";
    EXPECT_EQ(read_file(log, 1U << 20U).value_or(""), "as expected\n");
    EXPECT_EQ(exit->message(), "exit code 0");
  }

  TemporaryFolder folder_;

 private:
  // Empty where it is not installed.
  static std::filesystem::path node() {
    constexpr std::array kPlaces = {"/usr/bin/node", "/usr/local/bin/node"};
    for (const char* place : kPlaces) {
      if (std::filesystem::exists(place)) return place;
    }
    return {};
  }
};

}  // namespace autotuned::daemon
