// SPDX-License-Identifier: Apache-2.0
// Picture files without targets, for a model that is to answer and not to learn.
#pragma once

#include <memory>

#include "base/json.hpp"
#include "base/result.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::input {

// A type of data that no recipe can name.
inline constexpr const char* kUnlabelledPictures = "unlabelled_pictures";

// Parameters: `files`, paths of JPEG and PNG files, in the order of the samples; `channels`: missing where the samples are
// to be encoded files, as those of image_files; else 1 or 3, and samples are bytes, as those of arrays: pictures of one
// size, of which 1 makes grey as PIL's convert("L") does. Every sample has class 0.
// Errors are those of image_files; ErrorKind::invalid also where sizes differ that must be equal.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_unlabelled_pictures(const Json& parameters);

}  // namespace autotuned::input
