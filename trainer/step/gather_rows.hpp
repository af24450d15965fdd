// SPDX-License-Identifier: Apache-2.0
// Selection of whole rows, and its gradient: a gather whose index is the same along all dimensions after its own.
// Private to trainer/: includes LibTorch, throws its exceptions.
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

// Recognises a gather(source, dim, index) that selects whole rows; otherwise nothing. It does if source and index have
// the same sizes except for `dim`, with more than one element after it, and the index is expanded (stride 0) over the
// dimensions after it. Along the first dimension LibTorch has fast code of its own, which adds in another order. `dim`
// counts from the end when negative. Does not read the indices.
[[nodiscard]] std::optional<RowSelection> row_selection(at::IntArrayRef source_sizes,
                                                        std::int64_t dim, const at::Tensor& index);

// Whether every index is a valid row. Reads the indices, so it is for the CPU only.
[[nodiscard]] bool has_valid_indices(const RowSelection& selection);

// Copies the selected rows, on the CPU, for any type. REQUIRES: valid indices. The result has the sizes of
// `index_sizes`.
[[nodiscard]] at::Tensor copy_rows(const at::Tensor& source, const RowSelection& selection,
                                   at::IntArrayRef index_sizes);

// The gradient of copy_rows(): zeros of `source_sizes` plus the rows of `gradient`. If a row was selected several
// times, its gradients are added in the order of selection, as scatter_add_ does. For floating types.
[[nodiscard]] at::Tensor add_rows(const at::Tensor& gradient, const RowSelection& selection,
                                  at::IntArrayRef source_sizes);

// copy_rows() and add_rows() by LibTorch's operators, for any device. An invalid index becomes an assertion on the
// device, as in gather; on the CPU an exception.
[[nodiscard]] at::Tensor index_rows(const at::Tensor& source, const RowSelection& selection,
                                    at::IntArrayRef index_sizes);
[[nodiscard]] at::Tensor index_add_rows(const at::Tensor& gradient, const RowSelection& selection,
                                        at::IntArrayRef source_sizes);

}  // namespace autotuned::trainer
