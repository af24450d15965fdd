// SPDX-License-Identifier: Apache-2.0
// Writes the history that is kept in data/ for the present schema version: write_fixture FILE.
#include <cstdio>

#include "tests/storage/sample.hpp"

int main(int argc, char** argv) {
  using namespace autotuned;
  using namespace autotuned::storage;
  if (argc != 2) return 2;
  try {
    History history = open_with_run(argv[1]);
    const RunRow run = sample_run();
    must(history.put_trial(run.id, sample_trial()));
    must(history.put_block({run.id, 1}, sample_block()));
    must(history.put_check({run.id, 1}, {"exact", true, 12, "equal"}));
    must(history.put_profile(run.id, run.best, {{"step.duration_ns", 8.1}}, Json::array(),
                             Json::array(), 1));
    must(history.put_plugin_asked(run.id,
                                  {.plugin = "num_workers", .version = "1", .sha256 = "aa"}));
    must(history.put_best({.recipe_hash = "h1",
                           .environment_key = "e1",
                           .run = run.id,
                           .best = run.best,
                           .speedup = run.speedup,
                           .updated_unix_ns = 1}));
  } catch (const std::exception& exception) {
    static_cast<void>(std::fprintf(stderr, "%s\n", exception.what()));
    return 1;
  }
  return 0;
}
