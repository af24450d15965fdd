// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/dataset.hpp"

#include <cassert>

#include "base/file_pattern.hpp"
#include "trainer/input/datasets/dataset_types.hpp"

namespace autotuned::input {

Result<std::unique_ptr<Dataset>> open_dataset(const std::string& type, const Json& parameters,
                                              std::span<const std::string> known_classes) {
  if (type == "cifar10") return open_cifar10(parameters);
  if (type == "idx") return open_idx(parameters);
  if (type == "image_files") return open_image_files(parameters, known_classes);
  if (type == "image_index") return open_image_index(parameters, known_classes);
  if (type == "image_masks") return open_image_masks(parameters);
  if (type == "image_tags") return open_image_tags(parameters, known_classes);
  if (type == "image_targets") return open_image_targets(parameters, known_classes);
  if (type == "jpeg_files") return open_jpeg_files(parameters, known_classes);
  if (type == "npy") return open_npy(parameters);
  if (type == "synthetic") return open_synthetic(parameters);
  if (type == "synthetic_masks") return open_synthetic_masks(parameters);
  if (type == "synthetic_normal") return open_synthetic_normal(parameters);
  if (type == "synthetic_tags") return open_synthetic_tags(parameters);
  if (type == "synthetic_targets") return open_synthetic_targets(parameters);
  if (type == "synthetic_tokens") return open_synthetic_tokens(parameters);
  if (type == "tar") return open_tar(parameters);
  if (type == "tokens") return open_tokens(parameters);
  return fail(ErrorKind::unsupported, "the data set type `" + type + "` is not known", "data",
              "use cifar10, idx, image_files, image_index, image_masks, image_tags, image_targets, "
              "jpeg_files, npy, synthetic, synthetic_masks, synthetic_normal, synthetic_tags, "
              "synthetic_targets, synthetic_tokens, tar or tokens");
}

Result<void> Dataset::read(std::int64_t index, std::span<std::uint8_t> /*out*/) const {
  return fail(ErrorKind::internal, "the samples are encoded", name(index));
}

Result<FileStamp> Dataset::read_encoded(std::int64_t index,
                                        std::vector<std::uint8_t>& /*out*/) const {
  return fail(ErrorKind::internal, "the samples are not encoded", name(index));
}

Result<SampleShape> Dataset::read_mask(std::int64_t index, MaskRoom& /*room*/) const {
  return fail(ErrorKind::internal, "the samples have no masks", name(index));
}

Dataset::Stored Dataset::stored() const {
  assert(type().element != Element::encoded);
  const std::int64_t bytes =
      size() * type().shape().elements() * static_cast<std::int64_t>(bytes_of(type().element));
  return {size(), bytes, bytes};
}

std::string Dataset::name(std::int64_t index) const {
  return "sample " + std::to_string(index) + " of the data";
}

Result<std::vector<std::string>> file_list(const Json& parameters, const char* name) {
  const Json& value = member(parameters, name);
  const Json patterns = value.is_array() ? value : Json::array({value});
  std::vector<std::string> files;
  for (const Json& pattern : patterns) {
    if (!pattern.is_string()) {
      return fail(ErrorKind::invalid, "`" + std::string(name) + "` names no files", "data",
                  "give a pattern such as photos/*.jpg, or a list of such");
    }
    const auto text = pattern.get<std::string>();
    auto found = files_matching(text);
    if (!found) return tl::unexpected(found.error());
    if (found->empty()) {
      return fail(ErrorKind::not_found, "no file matches", text,
                  "check `" + std::string(name) + "` in the recipe");
    }
    files.insert(files.end(), found->begin(), found->end());
  }
  if (files.empty())
    return fail(ErrorKind::invalid, "`" + std::string(name) + "` is empty", "data");
  return files;
}

Result<std::int64_t> bounded_integer(const Json& parameters, const char* name, std::int64_t least,
                                     std::int64_t most, std::optional<std::int64_t> otherwise) {
  if (otherwise && member(parameters, name).is_null()) return *otherwise;
  auto value = get_integer(parameters, name);
  if (!value) {
    value.error().where = "data";
    return value;
  }
  if (*value < least || *value > most) {
    return fail(ErrorKind::invalid,
                "`" + std::string(name) + "` is " + std::to_string(*value) + ", outside of " +
                    std::to_string(least) + " to " + std::to_string(most),
                "data");
  }
  return value;
}

}  // namespace autotuned::input
