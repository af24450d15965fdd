// SPDX-License-Identifier: Apache-2.0
// Stores each of many repeated strings once.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace autotuned::traces {

using NameId = std::uint32_t;

// A table of texts without duplicates.
class NameTable {
 public:
  NameTable() = default;
  NameTable(NameTable&&) = default;
  NameTable& operator=(NameTable&&) = default;
  // The index points into the texts, so a copy would point into the original.
  NameTable(const NameTable&) = delete;
  NameTable& operator=(const NameTable&) = delete;

  // Returns the id of `text`, the same for equal texts. Ids count up from 0.
  NameId intern(std::string_view text);

  // Returns the text of an id, valid for the lifetime of the table. REQUIRES: `id` is from this table.
  [[nodiscard]] const std::string& text(NameId id) const { return texts_[id]; }
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // never move
  std::unordered_map<std::string_view, NameId> ids_;
};

}  // namespace autotuned::traces
