// SPDX-License-Identifier: Apache-2.0
// Plain loops compiled twice, chosen when the program starts: for every x86-64, and for those with AVX2.
#pragma once

// On a function that is no template. AVX2 does not include FMA, so that multiplication and addition are
// rounded one by one in both, and both give the same bits. Sanitizers run before such a choice can. Tests
// define AUTOTUNED_PLAIN_CODE to have what a processor without AVX2 runs.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(AUTOTUNED_PLAIN_CODE)
#define AUTOTUNED_VECTOR_CODE __attribute__((target_clones("avx2", "default")))
#else
#define AUTOTUNED_VECTOR_CODE
#endif
