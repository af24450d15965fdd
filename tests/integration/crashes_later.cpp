// SPDX-License-Identifier: Apache-2.0
// The policy of the extension tricks: proposes a trick that is faster, and ends the process that asks it again.
#include <csignal>

#include "tests/plugins/fixtures/raw_plugin.hpp"

namespace {

const char* propose(const char*) {
  static bool is_asked = false;
  if (is_asked) {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  is_asked = true;
  return R"({"candidates": [{"change": {"tricks.trick": "hurries"}, "expected_gain_ratio": 2.0,
                             "reason": "a test"}]})";
}

}  // namespace

AUTOTUNED_RAW_PLUGIN("tricks", propose);
