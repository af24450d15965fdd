/* SPDX-License-Identifier: Apache-2.0 */
/* The binary surface of a library that the trainer loads, libNAME_trainer.so: an extension or a workload.
 *
 * What crosses this surface are C++ objects of LibTorch, so both sides must agree on LibTorch, on the
 * compiler and on the C++ library. A library says what it was built with in a section of its file, which
 * is read before anything of it runs. It exports the *address* of one descriptor under the alias
 * `autotuned_trainer_v1`; the number is the major version of this surface. Authors include extension.hpp
 * or workload.hpp, which do all of this. */
#ifndef AUTOTUNED_TRAINER_H
#define AUTOTUNED_TRAINER_H

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#include <cstddef> /* defines _GLIBCXX_USE_CXX11_ABI */
#endif

#define AUTOTUNED_TRAINER_MAGIC UINT64_C(0x3176727472747561) /* "autrtrv1", little-endian */
#define AUTOTUNED_TRAINER_SECTION ".autotuned.trainer"

#define AUTOTUNED_QUOTED_(text) #text
#define AUTOTUNED_QUOTED(text) AUTOTUNED_QUOTED_(text)

/* The version of these headers. A library that was built with another one is refused, because C++ objects are passed. */
#define AUTOTUNED_TRAINER_SDK "2"

#if defined(__clang__)
#define AUTOTUNED_TRAINER_COMPILER "Clang " AUTOTUNED_QUOTED(__clang_major__)
#elif defined(__GNUC__)
#define AUTOTUNED_TRAINER_COMPILER "GCC " AUTOTUNED_QUOTED(__GNUC__)
#else
#define AUTOTUNED_TRAINER_COMPILER "an unknown compiler"
#endif

#if defined(_GLIBCXX_USE_CXX11_ABI) && defined(_GLIBCXX_DEBUG)
#define AUTOTUNED_TRAINER_CXX_LIBRARY "libstdc++ in debug mode (_GLIBCXX_DEBUG)"
#elif defined(_GLIBCXX_USE_CXX11_ABI)
#define AUTOTUNED_TRAINER_CXX_LIBRARY \
  "libstdc++ with _GLIBCXX_USE_CXX11_ABI=" AUTOTUNED_QUOTED(_GLIBCXX_USE_CXX11_ABI)
#else
#define AUTOTUNED_TRAINER_CXX_LIBRARY "another C++ library than libstdc++"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct autotuned_trainer {
  uint64_t magic; /* AUTOTUNED_TRAINER_MAGIC */
  uint64_t
      size_bytes; /* sizeof(autotuned_trainer) when the library was built; fields are only added */
  const char* metadata; /* JSON: the text of the section */
  const void* surface;  /* of an extension or of a workload: see extension.hpp, workload.hpp */
} autotuned_trainer;

#ifdef __cplusplus
}
#endif

/* What the library needs of the machine, a JSON array: "cuda", or features of the CPU such as "avx512_bf16". Define it
 * before this header is included; without it on a machine, the library is `unsupported` there. */
#ifndef AUTOTUNED_TRAINER_NEEDS
#define AUTOTUNED_TRAINER_NEEDS "[]"
#endif

/* The metadata of a library. KIND is "extension" or "workload"; KNOBS a JSON array; the others are
 * text without quotation marks or backslashes. */
#define AUTOTUNED_TRAINER_METADATA(KIND, NAME, VERSION, SUMMARY, LIBTORCH, KNOBS)               \
  "{\"sdk\":\"" AUTOTUNED_TRAINER_SDK "\",\"kind\":\"" KIND "\",\"name\":\"" NAME               \
  "\",\"version\":\"" VERSION "\",\"summary\":\"" SUMMARY "\",\"libtorch\":\"" LIBTORCH         \
  "\",\"compiler\":\"" AUTOTUNED_TRAINER_COMPILER                                               \
  "\",\"cxx_library\":\"" AUTOTUNED_TRAINER_CXX_LIBRARY "\",\"needs\":" AUTOTUNED_TRAINER_NEEDS \
  ",\"knobs\":" KNOBS "}"

/* Makes this library one that the trainer loads; once, at global scope, in C++. SURFACE is an address. */
#define AUTOTUNED_TRAINER(METADATA, SURFACE)                                                    \
  extern "C" {                                                                                  \
  extern __attribute__((visibility("default"))) const char autotuned_trainer_metadata[];        \
  __attribute__((section(AUTOTUNED_TRAINER_SECTION), used))                                     \
  const char autotuned_trainer_metadata[] = METADATA;                                           \
  }                                                                                             \
  namespace {                                                                                   \
  constexpr autotuned_trainer kAutotunedTrainer = {                                             \
      AUTOTUNED_TRAINER_MAGIC, sizeof(autotuned_trainer), autotuned_trainer_metadata, SURFACE}; \
  }                                                                                             \
  extern "C" {                                                                                  \
  extern __attribute__((visibility("default"))) const void* const autotuned_trainer_v1;         \
  const void* const autotuned_trainer_v1 = &kAutotunedTrainer;                                  \
  }                                                                                             \
  static_assert(true, "needs a semicolon")

#endif
