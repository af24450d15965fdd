// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/jpeg_memory.hpp"

#include <jerror.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

// libjpeg lets its memory manager define this type: the coefficients of a component, for files of several scans.
struct jvirt_barray_control {
  JBLOCKARRAY rows = nullptr;
  JDIMENSION blocks_of_row = 0;
  JDIMENSION row_count = 0;
  JDIMENSION cleared_rows = 0;  // from the first one on
};

namespace autotuned::input {
namespace {

// Vector code of libjpeg reads and writes up to twice its 32 bytes beyond what it is asked for.
constexpr std::size_t kRowAlignment = 64;

// An error leaves by longjmp: nothing here may need a destructor.
void* take(j_common_ptr info, int /*pool*/, std::size_t bytes) {
  void* const memory = static_cast<PictureMemory*>(info->client_data)->take(bytes);
  if (memory == nullptr) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  return memory;
}

// Rows that lie one behind the other.
template <class Element>
Element** take_rows(j_common_ptr info, int pool, std::size_t elements, JDIMENSION count) {
  auto* const rows = static_cast<Element**>(take(info, pool, count * sizeof(Element*)));
  auto* const first = static_cast<Element*>(take(info, pool, count * elements * sizeof(Element)));
  for (JDIMENSION i = 0; i < count; ++i)
    rows[i] = first + i * elements;
  return rows;
}

JSAMPARRAY take_samples(j_common_ptr info, int pool, JDIMENSION samples, JDIMENSION rows) {
  const std::size_t padded = (samples + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  return take_rows<JSAMPLE>(info, pool, padded, rows);
}

JBLOCKARRAY take_blocks(j_common_ptr info, int pool, JDIMENSION blocks, JDIMENSION rows) {
  return take_rows<JBLOCK>(info, pool, blocks, rows);
}

jvirt_barray_ptr take_coefficients(j_common_ptr info, int pool, boolean /*pre_zero*/,
                                   JDIMENSION blocks, JDIMENSION rows, JDIMENSION /*at_once*/) {
  void* const memory = take(info, pool, sizeof(jvirt_barray_control));
  return new (memory) jvirt_barray_control{take_blocks(info, pool, blocks, rows), blocks, rows, 0};
}

void keep_memory(j_common_ptr /*info*/) {}

// Rows are cleared as they are first seen: of a file that is cut, most never are.
JBLOCKARRAY rows_of(j_common_ptr info, jvirt_barray_ptr coefficients, JDIMENSION first,
                    JDIMENSION count, boolean /*is_written*/) {
  if (first > coefficients->row_count || count > coefficients->row_count - first) {
    ERREXIT(info, JERR_BAD_VIRTUAL_ACCESS);
  }
  JDIMENSION& cleared = coefficients->cleared_rows;
  for (; cleared < first + count; ++cleared)
    std::memset(coefficients->rows[cleared], 0, coefficients->blocks_of_row * sizeof(JBLOCK));
  return coefficients->rows + first;
}

}  // namespace

void take_memory_from(PictureMemory& memory, jpeg_decompress_struct& info) {
  info.client_data = &memory;
  info.mem->alloc_small = take;
  info.mem->alloc_large = take;
  info.mem->alloc_sarray = take_samples;
  info.mem->alloc_barray = take_blocks;
  info.mem->request_virt_barray = take_coefficients;
  info.mem->realize_virt_arrays = keep_memory;
  info.mem->access_virt_barray = rows_of;
}

void forget_picture(jpeg_decompress_struct& info) {
  jpeg_abort_decompress(&info);
  std::ranges::fill(info.quant_tbl_ptrs, nullptr);
  std::ranges::fill(info.dc_huff_tbl_ptrs, nullptr);
  std::ranges::fill(info.ac_huff_tbl_ptrs, nullptr);
  static_cast<PictureMemory*>(info.client_data)->reset();
}

}  // namespace autotuned::input
