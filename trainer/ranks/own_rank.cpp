// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/own_rank.hpp"

#include <charconv>
#include <string_view>

namespace autotuned::trainer {
namespace {

constexpr const char* kRank = "AUTOTUNED_RANK";
constexpr const char* kRanks = "AUTOTUNED_RANKS";
constexpr const char* kStore = "AUTOTUNED_RANK_STORE";

Result<int> number_of(const char* name, const char* text) {
  if (text == nullptr) {
    return fail(ErrorKind::invalid, "is not set, although AUTOTUNED_RANK is", name,
                "start ranks by `autotuned run --ranks N`");
  }
  const std::string_view digits = text;
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) {
    return fail(ErrorKind::invalid, "expected a number, found '" + std::string(digits) + "'", name);
  }
  return value;
}

}  // namespace

std::vector<std::string> rank_variables(const OwnRank& place) {
  return {std::string(kRank) + "=" + std::to_string(place.rank),
          std::string(kRanks) + "=" + std::to_string(place.ranks),
          std::string(kStore) + "=" + place.store.string()};
}

Result<std::optional<OwnRank>> own_rank_from(const VariableLookup& variable) {
  const char* const text = variable(kRank);
  if (text == nullptr) return std::nullopt;
  const auto rank = number_of(kRank, text);
  if (!rank) return tl::unexpected(rank.error());
  const auto ranks = number_of(kRanks, variable(kRanks));
  if (!ranks) return tl::unexpected(ranks.error());
  if (*rank >= *ranks) {
    return fail(ErrorKind::invalid,
                "there is no rank " + std::to_string(*rank) + " among " + std::to_string(*ranks) +
                    ", which are counted from 0",
                kRank);
  }
  const char* const store = variable(kStore);
  if (store == nullptr || *store == '\0') {
    return fail(ErrorKind::invalid, "is not set, although AUTOTUNED_RANK is", kStore,
                "start ranks by `autotuned run --ranks N`");
  }
  return OwnRank{.rank = *rank, .ranks = *ranks, .store = store};
}

}  // namespace autotuned::trainer
