// SPDX-License-Identifier: Apache-2.0
// The types of data sets behind open_dataset(), one source file each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::input {

inline constexpr std::int64_t kMaxSamples = 0xffff'ffff;  // an index has 4 bytes in EpochOrder
inline constexpr int kMaxClasses = 65'536;
inline constexpr std::int64_t kMaxSide = 65'536;  // of an image
inline constexpr std::int64_t kMaxSampleBytes = std::int64_t{1} << 30U;

// An integer parameter in [least, most], or `otherwise` if it is absent.
[[nodiscard]] Result<std::int64_t> bounded_integer(const Json& parameters, const char* name,
                                                   std::int64_t least, std::int64_t most,
                                                   std::optional<std::int64_t> otherwise = {});

// The files of a parameter that holds a pattern or a list of patterns: in the order of the list, sorted within each
// pattern. ErrorKind::not_found: a pattern that matches no file.
[[nodiscard]] Result<std::vector<std::string>> file_list(const Json& parameters, const char* name);

struct SyntheticParameters {
  std::int64_t samples = 1;
  SampleShape shape;
  int classes = 1;  // or values of a target, or tags
  std::uint64_t seed = 1;
};
// `count` names the parameter of `classes`.
[[nodiscard]] Result<SyntheticParameters> synthetic_parameters(const Json& parameters,
                                                               const char* count = "classes");

[[nodiscard]] Result<std::unique_ptr<Dataset>> open_cifar10(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_idx(const Json& parameters);
// `known_classes` as of open_dataset().
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_image_files(
    const Json& parameters, std::span<const std::string> known_classes);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_image_index(
    const Json& parameters, std::span<const std::string> known_classes);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_image_masks(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_image_tags(
    const Json& parameters, std::span<const std::string> known_names);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_image_targets(
    const Json& parameters, std::span<const std::string> known_names);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_jpeg_files(
    const Json& parameters, std::span<const std::string> known_classes);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_npy(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_synthetic(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_synthetic_masks(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_synthetic_normal(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_synthetic_tags(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_synthetic_targets(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_synthetic_tokens(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_tar(const Json& parameters);
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_tokens(const Json& parameters);

}  // namespace autotuned::input
