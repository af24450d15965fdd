// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/gather_rows.hpp"

#include <ATen/Dispatch.h>
#include <ATen/EmptyTensor.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

namespace autotuned::trainer {
namespace {

constexpr std::int64_t kNone = -1;
// Elements that are worth a thread of their own, as in LibTorch's operators.
constexpr std::int64_t kElementsPerTask = 32'768;

std::int64_t product(at::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// `tensor` as (batches, rows, length) with the elements of a row side by side; a view where possible.
at::Tensor as_rows(const at::Tensor& tensor, const RowSelection& selection) {
  at::Tensor rows = tensor.reshape({selection.batches, -1, selection.length});
  return rows.stride(2) == 1 ? rows : rows.contiguous();
}

std::int64_t rows_per_task(const RowSelection& selection) {
  return std::max<std::int64_t>(1, kElementsPerTask / selection.length);
}

// Which selections are of which row: `first` by (batch, row), `next` by (batch, selection), ascending.
struct Chains {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> next;
};

Chains chains_of(const RowSelection& selection) {
  const auto indices = selection.indices.accessor<std::int64_t, 2>();
  Chains chains;
  chains.first.assign(static_cast<std::size_t>(selection.batches * selection.rows), kNone);
  chains.next.assign(static_cast<std::size_t>(selection.batches * selection.selected), kNone);
  for (std::int64_t b = 0; b < selection.batches; ++b) {
    std::int64_t* const first = chains.first.data() + b * selection.rows;
    std::int64_t* const next = chains.next.data() + b * selection.selected;
    for (std::int64_t i = selection.selected; i-- > 0;) {
      std::int64_t& head = first[indices[b][i]];
      next[i] = head;
      head = i;
    }
  }
  return chains;
}

// Adds up one row of the gradient. Sums of 16-bit numbers are rounded once at their end, as in scatter_add_.
template <class Number>
void add_chain(Number* out, const Number* gradient, std::int64_t stride, std::int64_t length,
               std::int64_t first, const std::int64_t* next) {
  using Sum = at::opmath_type<Number>;
  if (first == kNone) {
    std::memset(static_cast<void*>(out), 0, static_cast<std::size_t>(length) * sizeof(Number));
    return;
  }
  const Number* const row = gradient + first * stride;
  if (next[first] == kNone) {
    // Not a copy: 0 + -0 is +0.
    for (std::int64_t k = 0; k < length; ++k)
      out[k] = static_cast<Number>(Sum(0) + static_cast<Sum>(row[k]));
    return;
  }
  for (std::int64_t k = 0; k < length; ++k) {
    Sum sum(0);
    for (std::int64_t i = first; i != kNone; i = next[i])
      sum += static_cast<Sum>(gradient[i * stride + k]);
    out[k] = static_cast<Number>(sum);
  }
}

// The number of each selected row when the rows of all batches are counted through, `rows_per_batch`
// to a batch.
at::Tensor flat_indices(const RowSelection& selection, std::int64_t rows_per_batch) {
  const at::Tensor& indices = selection.indices;
  at::_assert_async(indices.ge(0).logical_and(indices.lt(selection.rows)).all(),
                    "gather: index out of bounds");
  const at::Tensor batches = at::arange(selection.batches, indices.options()).unsqueeze(1);
  return (indices + batches * rows_per_batch).flatten();
}

}  // namespace

std::optional<RowSelection> row_selection(at::IntArrayRef source_sizes, std::int64_t dim,
                                          const at::Tensor& index) {
  const auto dimensions = static_cast<std::int64_t>(source_sizes.size());
  if (index.dim() != dimensions || index.numel() == 0 || product(source_sizes) == 0) return {};
  if (dim < 0) dim += dimensions;
  if (dim <= 0 || dim >= dimensions) return {};
  for (std::int64_t d = 0; d < dimensions; ++d) {
    const std::int64_t size = index.size(d);
    if (d != dim && size != source_sizes[static_cast<std::size_t>(d)]) return {};
    if (d > dim && size != 1 && index.stride(d) != 0) return {};
  }
  const auto split = static_cast<std::size_t>(dim);
  RowSelection selection{.batches = product(source_sizes.slice(0, split)),
                         .rows = source_sizes[split],
                         .selected = index.size(dim),
                         .length = product(source_sizes.slice(split + 1))};
  if (selection.length == 1) return {};
  at::Tensor indices = index;
  while (indices.dim() > dim + 1)
    indices = indices.select(-1, 0);
  selection.indices = indices.reshape({selection.batches, selection.selected});
  return selection;
}

bool has_valid_indices(const RowSelection& selection) {
  const auto indices = selection.indices.accessor<std::int64_t, 2>();
  for (std::int64_t b = 0; b < selection.batches; ++b) {
    for (std::int64_t i = 0; i < selection.selected; ++i) {
      if (indices[b][i] < 0 || indices[b][i] >= selection.rows) return false;
    }
  }
  return true;
}

at::Tensor copy_rows(const at::Tensor& source, const RowSelection& selection,
                     at::IntArrayRef index_sizes) {
  const at::Tensor rows = as_rows(source, selection);
  // Every byte is written: at::empty() would fill them first under deterministic algorithms.
  at::Tensor result(at::detail::empty_cpu(index_sizes, source.options()));
  const auto indices = selection.indices.accessor<std::int64_t, 2>();
  const auto item = static_cast<std::int64_t>(source.element_size());
  const std::int64_t bytes = selection.length * item;
  const std::int64_t batch_stride = rows.stride(0) * item;
  const std::int64_t row_stride = rows.stride(1) * item;
  const auto* const from = static_cast<const std::byte*>(rows.const_data_ptr());
  auto* const to = static_cast<std::byte*>(result.mutable_data_ptr());
  at::parallel_for(0, selection.batches * selection.selected, rows_per_task(selection),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t b = i / selection.selected;
                       const std::int64_t row = indices[b][i % selection.selected];
                       std::memcpy(to + i * bytes, from + b * batch_stride + row * row_stride,
                                   static_cast<std::size_t>(bytes));
                     }
                   });
  return result;
}

at::Tensor add_rows(const at::Tensor& gradient, const RowSelection& selection,
                    at::IntArrayRef source_sizes) {
  const at::Tensor rows = as_rows(gradient, selection);
  at::Tensor result(at::detail::empty_cpu(source_sizes, gradient.options()));
  const Chains chains = chains_of(selection);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, gradient.scalar_type(), "add_rows", [&] {
        const auto* const from = rows.const_data_ptr<scalar_t>();
        auto* const to = result.mutable_data_ptr<scalar_t>();
        at::parallel_for(0, selection.batches * selection.rows, rows_per_task(selection),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             const std::int64_t b = i / selection.rows;
                             add_chain(to + i * selection.length, from + b * rows.stride(0),
                                       rows.stride(1), selection.length,
                                       chains.first[static_cast<std::size_t>(i)],
                                       chains.next.data() + b * selection.selected);
                           }
                         });
      });
  return result;
}

at::Tensor index_rows(const at::Tensor& source, const RowSelection& selection,
                      at::IntArrayRef index_sizes) {
  at::Tensor rows = as_rows(source, selection);
  // A slice along `dim` is rows of a larger matrix: no copy is needed to count them through.
  if (rows.stride(1) <= 0 || rows.stride(0) % rows.stride(1) != 0) rows = rows.contiguous();
  const std::int64_t rows_per_batch = rows.stride(0) / rows.stride(1);
  const at::Tensor matrix =
      rows.as_strided({(selection.batches - 1) * rows_per_batch + selection.rows, selection.length},
                      {rows.stride(1), 1});
  return matrix.index_select(0, flat_indices(selection, rows_per_batch)).view(index_sizes);
}

at::Tensor index_add_rows(const at::Tensor& gradient, const RowSelection& selection,
                          at::IntArrayRef source_sizes) {
  at::Tensor sums =
      at::zeros({selection.batches * selection.rows, selection.length}, gradient.options());
  sums.index_add_(0, flat_indices(selection, selection.rows),
                  gradient.reshape({-1, selection.length}));
  return sums.view(source_sizes);
}

}  // namespace autotuned::trainer
