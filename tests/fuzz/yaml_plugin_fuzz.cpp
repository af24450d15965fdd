// SPDX-License-Identifier: Apache-2.0
// YAML plugins: read, then asked about two situations; the answer must be one that the tuner takes.
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "plugins/host/yaml_plugin.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/places.hpp"
#include "tuner/advisors.hpp"

namespace {

using namespace autotuned;

const std::vector<Json>& situations() {
  static const auto* const kSituations = [] {
    auto* read = new std::vector<Json>;
    for (const char* name : {"fashion_cnn_cpu", "resnet18_gpu"}) {
      const std::string file =
          tests::source_folder() / "tests/plugins/data" / (std::string(name) + ".json");
      read->push_back(parse_json(read_file(file, 1U << 20U).value(), file).value());
    }
    return read;
  }();
  return *kSituations;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto plugin = plugins::parse_yaml_plugin(fuzz::text_of(data, size), "plugin.yaml");
  if (!plugin) {
    FUZZ_CHECK(!plugin.error().empty());
    return 0;
  }
  for (const Json& situation : situations()) {
    const auto answer = plugin->policy->propose(situation);
    if (!answer) {
      FUZZ_CHECK(answer.error().kind == ErrorKind::invalid);
      continue;
    }
    static_cast<void>(to_line(*answer));
    static_cast<void>(tuner::parse_advice(*answer, "plugin"));
  }
  return 0;
}
