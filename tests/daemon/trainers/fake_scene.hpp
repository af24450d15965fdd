// SPDX-License-Identifier: Apache-2.0
// A folder with a fake trainer in it, and how it behaves.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"

namespace autotuned {

// Trainers get a restricted environment and no arguments: a script brings the behaviour along.
class FakeScene {
 public:
  explicit FakeScene(const Json& behaviour = Json::object()) {
    folder_.write("trainer", "#!/bin/sh\nAUTOTUNED_FAKE='" + (folder_ / "behaviour.json").string() +
                                 "'\nexport AUTOTUNED_FAKE\nexec " +
                                 (tests::build_folder() / "tests/fake_trainer").string() + "\n");
    chmod(trainer().c_str(), 0755);
    mkfifo(gate().c_str(), 0600);
    behave(behaviour);
  }

  // From the next trainer on.
  void behave(const Json& behaviour) const { folder_.write("behaviour.json", behaviour.dump()); }
  [[nodiscard]] std::filesystem::path trainer() const { return folder_ / "trainer"; }
  // Lets go of a trainer that does "pause", as long as this is open.
  [[nodiscard]] Descriptor open_gate() const { return Descriptor(open(gate().c_str(), O_RDWR)); }
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }

  // What the trainers were asked, in order; `name` leaves out other requests.
  [[nodiscard]] std::vector<Json> requests(const std::string& name = "") const {
    std::vector<Json> requests;
    std::istringstream lines(folder_.read("requests.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      Json request = Json::parse(line);
      if (name.empty() || request.at("request") == name) requests.push_back(std::move(request));
    }
    return requests;
  }
  // The count starts anew.
  void forget_requests() const { std::filesystem::remove(folder_ / "requests.jsonl"); }

 private:
  [[nodiscard]] std::filesystem::path gate() const { return folder_ / "gate"; }

  TemporaryFolder folder_{place_in_memory()};
};

}  // namespace autotuned
