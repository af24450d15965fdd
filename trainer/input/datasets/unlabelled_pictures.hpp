// SPDX-License-Identifier: Apache-2.0
// Picture files without targets, for predictions.
#pragma once

#include <memory>

#include "base/json.hpp"
#include "base/result.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::input {

// A type of data that no recipe can name.
inline constexpr const char* kUnlabelledPictures = "unlabelled_pictures";

// Parameters: `files`, paths of JPEG and PNG files, in the order of the samples; `channels`: if it is missing, samples
// are encoded files, like those of image_files. With 1 or 3, samples are bytes, like those of arrays, and all pictures
// must have one size; 1 converts to grey as PIL's convert("L") does. Every sample has class 0. Errors are those of
// image_files; ErrorKind::invalid also if sizes differ that must be equal.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_unlabelled_pictures(const Json& parameters);

}  // namespace autotuned::input
