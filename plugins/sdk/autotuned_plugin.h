/* SPDX-License-Identifier: Apache-2.0 */
/* The binary surface of a policy plugin: plain C, so that any compiler and any language will do.
 *
 * A plugin exports the *address* of one descriptor under the alias `autotuned_plugin_v1` (the number is the
 * major version of this surface; another one is refused before the file is loaded). Both are constants, complete
 * when the library is built: they are read from the file, so that a plugin can be refused before anything of it
 * runs. C++ authors use plugin.hpp, which does all of this. Text is UTF-8. */
#ifndef AUTOTUNED_PLUGIN_H
#define AUTOTUNED_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AUTOTUNED_PLUGIN_MAGIC UINT64_C(0x3176676c70747561) /* "autplgv1", little-endian */

typedef struct autotuned_plugin {
  uint64_t magic; /* AUTOTUNED_PLUGIN_MAGIC */
  uint64_t
      size_bytes;   /* sizeof(autotuned_plugin) when the plugin was built; fields are only added */
  const char* name; /* [a-z][a-z0-9_]*, the file is lib<name>.so */
  const char* version; /* of the plugin, for the history */
  const char* summary; /* one sentence */

  /* Answers a situation (README.md) with malloc-like memory that `release` takes back, or NULL when it
   * cannot. Called from one thread, one call at a time. Must return within two seconds, must not throw,
   * must not touch the process (signals, environment, working folder, exit). */
  const char* (*propose)(const char* situation_json);
  void (*release)(const char* answer_json);
} autotuned_plugin;

#ifdef __cplusplus
}
#endif

#endif
