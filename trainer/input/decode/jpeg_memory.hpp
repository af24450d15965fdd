// SPDX-License-Identifier: Apache-2.0
// A memory manager for libjpeg that keeps its memory between pictures.
#pragma once

// jpeglib.h needs <cstdio> before it.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include "trainer/input/decode/picture_memory.hpp"

namespace autotuned::input {

// From now on the decompressor allocates everything from `memory`, with its tables, and this manager uses client_data.
// REQUIRES: jpeg_create_decompress() was just called; the memory lives as long as it is used.
void take_memory_from(PictureMemory& memory, jpeg_decompress_struct& info);

// Ends the decoding of a picture and gives its memory back, with its tables, so that no other picture can use them.
void forget_picture(jpeg_decompress_struct& info);

}  // namespace autotuned::input
