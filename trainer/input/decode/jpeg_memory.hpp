// SPDX-License-Identifier: Apache-2.0
// libjpeg over memory that is kept between pictures.
#pragma once

// jpeglib.h does not include what it needs.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include "trainer/input/decode/picture_memory.hpp"

namespace autotuned::input {

// From here on everything that the decompressor takes comes out of `memory`, tables included, and client_data
// belongs to this. REQUIRES: jpeg_create_decompress() was just called; the memory lives as long as it is used.
void take_memory_from(PictureMemory& memory, jpeg_decompress_struct& info);

// Ends what was begun with a picture and gives its memory back. Its tables are gone with it, so that no other
// picture can use them.
void forget_picture(jpeg_decompress_struct& info);

}  // namespace autotuned::input
