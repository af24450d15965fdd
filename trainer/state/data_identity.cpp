// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/data_identity.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.hpp"

namespace autotuned::trainer {
namespace {

// Limits of the sampled bytes of a data set, such that a disk reads them in a second.
constexpr std::int64_t kMaxSampled = 64;
constexpr std::int64_t kMaxSampledBytes = std::int64_t{16} << 20U;

// How many labels go into a digest at once.
constexpr std::size_t kLabelsTogether = 4096;

// A member of an identity, and how another value of it is told.
constexpr std::array<std::pair<const char*, const char*>, 5> kParts = {
    {{"samples", "another number of samples"},
     {"classes", "other classes"},
     {"labels", "other labels"},
     {"files", "other names of files"},
     {"content", "other contents"}}};

std::string classes_digest(const input::Dataset& data) {
  Sha256 sha;
  sha.update(std::to_string(data.classes()));
  for (const std::string& name : data.class_names()) {
    sha.update(std::string_view("\n"));
    sha.update(name);
  }
  return sha.finish();
}

std::string targets_digest(const input::Dataset& data, std::int64_t items) {
  Sha256 sha;
  std::vector<float> values(data.target().floats());
  std::vector<std::uint32_t> labels;
  for (std::int64_t i = 0; i < items; ++i) {
    if (!values.empty()) {
      data.read_target(i, values);
      sha.update(std::as_bytes(std::span(values)));
      continue;
    }
    labels.push_back(static_cast<std::uint32_t>(data.label(i)));
    if (labels.size() < kLabelsTogether) continue;
    sha.update(std::as_bytes(std::span(labels)));
    labels.clear();
  }
  sha.update(std::as_bytes(std::span(labels)));
  return sha.finish();
}

// With the slash at its end; empty: there is none.
std::string folder_in(std::string path) {
  path.resize(path.rfind('/') + 1);
  return path;
}

std::string names_digest(const input::Dataset& data, std::int64_t items) {
  std::string root = folder_in(data.name(0));
  for (std::int64_t i = 1; i < items && !root.empty(); ++i) {
    const std::string name = data.name(i);
    if (name.starts_with(root)) continue;
    const auto common = std::ranges::mismatch(root, name).in1;
    root = folder_in({root.begin(), common});
  }
  Sha256 sha;
  for (std::int64_t i = 0; i < items; ++i) {
    std::string name = data.name(i);
    name += '\n';
    sha.update(std::string_view(name).substr(root.size()));
  }
  return sha.finish();
}

void add_sized(Sha256& sha, std::span<const std::uint8_t> bytes) {
  sha.update(std::to_string(bytes.size()) + "\n");
  sha.update(std::as_bytes(bytes));
}

// Nothing: a sample cannot be read.
std::optional<std::string> content_digest(const input::Dataset& data, std::int64_t items) {
  const input::Dataset::Stored stored = data.stored();
  const std::int64_t mean =
      std::max<std::int64_t>(stored.bytes / std::max<std::int64_t>(stored.items, 1), 1);
  const std::int64_t count =
      std::min(items, std::clamp<std::int64_t>(kMaxSampledBytes / mean, 1, kMaxSampled));
  const input::SampleType type = data.type();
  const bool is_encoded = type.element == input::Element::encoded;
  Sha256 sha;
  std::vector<std::uint8_t> bytes;
  if (!is_encoded) {
    bytes.resize(static_cast<std::size_t>(type.shape().elements()) * input::bytes_of(type.element));
  }
  input::MaskRoom room;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t index = k * items / count;
    if (is_encoded) {
      if (!data.read_encoded(index, bytes)) return std::nullopt;
    } else if (!data.read(index, bytes)) {
      return std::nullopt;
    }
    add_sized(sha, bytes);
    if (!data.target().is_mask()) continue;
    if (!data.read_mask(index, room)) return std::nullopt;
    add_sized(sha, room.classes);
  }
  return sha.finish();
}

std::string difference_of_one(const Json& before, const Json& now) {
  std::string text;
  for (const auto& [part, told] : kParts) {
    const Json& one = member(before, part);
    const Json& two = member(now, part);
    if (one.is_null() || two.is_null() || one == two) continue;
    if (!text.empty()) text += ", ";
    text += told;
  }
  return text;
}

}  // namespace

Json data_identity_of(const input::Dataset& data) {
  // Repeated samples (repeat_to) are not counted again.
  const std::int64_t items = std::min(data.stored().items, data.size());
  const input::TargetType target = data.target();
  Json identity = {{"samples", data.size()}, {"classes", classes_digest(data)}};
  // The others are part of the contents.
  if (!target.is_mask() && !target.has_tokens()) identity["labels"] = targets_digest(data, items);
  // Samples that are not encoded have no files of their own.
  if (data.type().element == input::Element::encoded) identity["files"] = names_digest(data, items);
  if (auto content = content_digest(data, items)) identity["content"] = *std::move(content);
  return identity;
}

std::string data_difference(const Json& before, const Json& now) {
  std::string text;
  for (const auto& [set, name] : {std::pair{"train", "training"}, std::pair{"test", "test"}}) {
    const std::string difference = difference_of_one(member(before, set), member(now, set));
    if (difference.empty()) continue;
    text += (text.empty() ? "the " : "; the ") + std::string(name) + " data have " + difference;
  }
  return text;
}

}  // namespace autotuned::trainer
