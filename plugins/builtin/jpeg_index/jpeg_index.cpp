// SPDX-License-Identifier: Apache-2.0
// The Huffman code of a JPEG has no entry points: to decode a crop, all code above and beside it must be read. An index
// of entry points, made at the first read, saves that if photos repeat and do not fit into memory decoded.
#include <cstdint>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kIndex = "input.jpeg_index";
// A step that waits less than this has nothing to win that could be measured.
constexpr double kMinLoadingRatio = 0.02;
// The least share of decoding in a sample's time; less is not worth the memory.
constexpr double kMinDecodeRatio = 0.1;
// The first time costs about as much as a decoding.
constexpr double kFewestVisits = 2;
// The part of decoding a crop that an index saves: most of it is decoding around the crop.
constexpr double kSavedShare = 0.5;
// The most memory of an index, as a part of the memory that input.cache may use.
constexpr double kMaxMemoryRatio = 0.5;

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kIndex);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<bool>(kIndex).value_or(false)) {
    return sdk::none("the index is already in use");
  }
  const auto needed = static_cast<double>(situation.integer("job", "jpeg_index_bytes"));
  if (needed <= 0.0) {
    return sdk::none(
        "no transform crops JPEG files that can be indexed (baseline, 4:4:4, 4:2:2, 4:2:0 or "
        "grey)");
  }
  if (situation.incumbent<std::string>("input.decode").value_or("full") != "crop") {
    return sdk::none("pictures are decoded as a whole: an index needs input.decode: crop");
  }
  if (situation.incumbent<std::string>("input.decode_scale").value_or("full") != "full") {
    return sdk::none(
        "pictures are decoded at a smaller scale (input.decode_scale), which uses no index");
  }
  const std::string cache = situation.incumbent<std::string>("input.cache").value_or("none");
  const auto decoded = static_cast<double>(situation.integer("job", "cache_decoded_bytes"));
  const auto allowed = static_cast<double>(situation.integer("job", "cache_allowed_bytes"));
  if (cache != "none" && cache != "raw") {
    return sdk::none("pictures are kept decoded (input.cache: " + cache + ")");
  }
  if (decoded > 0.0 && decoded <= allowed) {
    return sdk::none("the decoded pictures fit into memory (" + sdk::bytes_text(decoded) + " of " +
                     sdk::bytes_text(allowed) + "), where input.cache saves more");
  }
  if (needed > kMaxMemoryRatio * allowed) {
    return sdk::none("an index of all files would need " + sdk::bytes_text(needed) +
                     " of memory, of " + sdk::bytes_text(allowed) + " allowed (tune.cache_memory)");
  }
  const auto stored = static_cast<double>(situation.integer("job", "stored_samples"));
  const auto ahead = static_cast<double>(situation.integer("recipe", "train_samples_total"));
  if (stored <= 0.0 || ahead < kFewestVisits * stored) {
    return sdk::none(
        "each file is used less than twice in the training, so an index saves nothing");
  }
  const auto loading = situation.metric("loader.cost_ratio");
  const auto decoding = situation.metric("input.decode_ratio");
  if (!loading || !decoding) {
    return sdk::none("the profile does not say how long the step waits for decoding");
  }
  if (*loading < kMinLoadingRatio) {
    return sdk::none("loading costs the step only " + sdk::percent(*loading) + " of its time");
  }
  if (*decoding < kMinDecodeRatio) {
    return sdk::none("decoding takes only " + sdk::percent(*decoding) + " of a sample's time");
  }
  const sdk::Json change = {{kIndex, true}};
  if (situation.has_lost(change)) return sdk::none("an index was tried and was not faster");
  const double share = *loading * *decoding;
  return sdk::propose_one(change,
                          situation.expected_gain(change, sdk::gain_without(kSavedShare * share)),
                          "decoding crops takes " + sdk::percent(*decoding) +
                              " of a sample's time, mostly for the parts around the crop; an index "
                              "of all files needs " +
                              sdk::bytes_text(needed) + ", where decoded pictures would take " +
                              sdk::bytes_text(decoded),
                          share);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN(
    "jpeg_index", "1.0",
    "Keeps an index of JPEG files, so that crops are decoded without the rest of the picture.",
    autotuned::plugins::propose);
