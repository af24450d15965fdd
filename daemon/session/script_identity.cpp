// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/script_identity.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/digest.hpp"
#include "base/json.hpp"

namespace autotuned::daemon {
namespace {

constexpr int kHashDigits = 16;

}  // namespace

std::string identity_of(const ScriptRequest& script, const std::string& content,
                        const std::string& python) {
  Json words = Json::array();
  for (const std::string& word : script.command) {
    const std::filesystem::path path(word);
    const bool is_place = words.empty() || path.filename() == script.name;
    words.push_back(is_place ? path.filename().string() : word);
  }
  std::vector<std::string> allow = script.allow;
  std::ranges::sort(allow);
  const Json identity = {{"kind", "script"},
                         {"words", words},
                         {"content", content},
                         {"python", python},
                         {"allow", allow}};
  return sha256_hex(to_line(identity)).substr(0, kHashDigits);
}

}  // namespace autotuned::daemon
