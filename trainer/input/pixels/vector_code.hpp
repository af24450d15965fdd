// SPDX-License-Identifier: Apache-2.0
// Compiles plain loops twice, for every x86-64 and for AVX2. The program chooses when it starts.
#pragma once

// Use on functions that are not templates. AVX2 does not include FMA, so that multiplication and addition are
// rounded one by one in both, and both give the same bits. Sanitizers start before the choice is possible,
// so they compile once. Tests define AUTOTUNED_PLAIN_CODE to run the code for processors without AVX2.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(AUTOTUNED_PLAIN_CODE)
#define AUTOTUNED_VECTOR_CODE __attribute__((target_clones("avx2", "default")))
#else
#define AUTOTUNED_VECTOR_CODE
#endif
