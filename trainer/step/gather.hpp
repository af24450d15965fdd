// SPDX-License-Identifier: Apache-2.0
// Runs the operator gather as a selection of whole rows if it is one. Private to trainer/.
#pragma once

#include <memory>

namespace autotuned::trainer {

// Replaces LibTorch's gather in the whole process, for native and TorchScript models, as long as the returned object or
// a copy of it lives. Values and gradients of every order stay bit for bit what they were, and so do errors: a call
// that is not plainly a selection of rows (gather_rows.hpp) goes to LibTorch's kernel.
//
// Switch it between steps, from one thread: no operator may run meanwhile. A graph made before the
// switch keeps the backward that it was made with. Throws c10::Error when LibTorch has no such operator.
[[nodiscard]] std::shared_ptr<const void> rewrite_gather();

}  // namespace autotuned::trainer
