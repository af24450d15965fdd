// SPDX-License-Identifier: Apache-2.0
// What a plugin of usual size is made of: compiled once, linked into each of the twenty.
#include "plugins/sdk/plugin.hpp"

namespace {

using namespace autotuned::sdk;

Answer propose(const Situation& situation) {
  const auto wait = situation.metric("step.data_wait_ratio");
  if (!wait || *wait < 0.02) return none("the step hardly waits for data");
  return propose_one({{"loader.prefetch_batches", 8}}, gain_without(*wait),
                     "the step waits " + percent(*wait) + " of its time for data");
}

}  // namespace

extern "C" {
const char* bench_propose(const char* situation_json);
void bench_release(const char* answer_json);

const char* bench_propose(const char* situation_json) {
  return detail::answer(propose, situation_json);
}
void bench_release(const char* answer_json) {
  detail::release(answer_json);
}
}
