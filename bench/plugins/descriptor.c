/* SPDX-License-Identifier: Apache-2.0 */
/* One of twenty plugins whose loading is measured; BENCH_NAME is its name. */
#include "plugins/sdk/autotuned_plugin.h"

const char* bench_propose(const char* situation_json);
void bench_release(const char* answer_json);

static const autotuned_plugin kDescriptor = {AUTOTUNED_PLUGIN_MAGIC,
                                             sizeof(autotuned_plugin),
                                             BENCH_NAME,
                                             "1.0",
                                             "Is loaded.",
                                             bench_propose,
                                             bench_release};

extern __attribute__((visibility("default"))) const void* const autotuned_plugin_v1;
const void* const autotuned_plugin_v1 = &kDescriptor;
