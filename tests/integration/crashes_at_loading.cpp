// SPDX-License-Identifier: Apache-2.0
// A plugin whose constructor ends the process that loads it.
#include <csignal>

#include "tests/plugins/fixtures/raw_plugin.hpp"

namespace {

struct Crash {
  Crash() {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
};
[[gnu::used]] const Crash kCrash;

const char* propose(const char*) {
  return "{}";
}

}  // namespace

AUTOTUNED_RAW_PLUGIN("crashes_at_loading", propose);
