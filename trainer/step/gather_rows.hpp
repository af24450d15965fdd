// SPDX-License-Identifier: Apache-2.0
// Selection of whole rows, and its gradient: what gather does with an index that is the same along all
// dimensions after its own. Private to trainer/: includes LibTorch, throws its exceptions.
//
// gather reads an index per element, and its gradient adds element by element, on one thread. Here a row
// is one copy, and its gradient is one copy too unless the row was selected several times.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace autotuned::trainer {

// A gather along `dim` seen as a selection: `batches` times, `selected` out of `rows` rows of `length`
// elements.
struct RowSelection {
  std::int64_t batches = 0;
  std::int64_t rows = 0;
  std::int64_t selected = 0;
  std::int64_t length = 0;
  at::Tensor indices;  // (batches, selected), int64, a view where possible
};

// Nothing unless gather(source, dim, index) selects whole rows: source and index have the same sizes
// but for `dim`, with more than one element after it, and the index is expanded (stride 0) over the
// dimensions after it. Along the first dimension LibTorch has fast code of its own, which adds in
// another order. `dim` counts from the end when negative. Indices are not looked at.
[[nodiscard]] std::optional<RowSelection> row_selection(at::IntArrayRef source_sizes,
                                                        std::int64_t dim, const at::Tensor& index);

// Whether every index is a row. Reads them, so on the CPU only.
[[nodiscard]] bool has_valid_indices(const RowSelection& selection);

// On the CPU, for any type. REQUIRES: valid indices. The result has the sizes of `index_sizes`.
[[nodiscard]] at::Tensor copy_rows(const at::Tensor& source, const RowSelection& selection,
                                   at::IntArrayRef index_sizes);

// The gradient of that: zeros of `source_sizes` with the rows of `gradient` added, those of one row in
// the order in which they were selected, as scatter_add_ does. For floating types.
[[nodiscard]] at::Tensor add_rows(const at::Tensor& gradient, const RowSelection& selection,
                                  at::IntArrayRef source_sizes);

// The same two by LibTorch's operators, for any device. An invalid index becomes an assertion on the
// device, as in gather; on the CPU an exception.
[[nodiscard]] at::Tensor index_rows(const at::Tensor& source, const RowSelection& selection,
                                    at::IntArrayRef index_sizes);
[[nodiscard]] at::Tensor index_add_rows(const at::Tensor& gradient, const RowSelection& selection,
                                        at::IntArrayRef source_sizes);

}  // namespace autotuned::trainer
