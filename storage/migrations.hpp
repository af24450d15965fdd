// SPDX-License-Identifier: Apache-2.0
// The steps from an empty file to the present schema: migrations/NNNN_*.sql, turned into strings by
// the build. A file whose user_version is N has had the first N. A released migration never changes.
#pragma once

#include <span>

namespace autotuned::storage {

[[nodiscard]] std::span<const char* const> migrations();

}  // namespace autotuned::storage
