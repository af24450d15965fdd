// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/name_table.hpp"

namespace autotuned::traces {

NameId NameTable::intern(std::string_view text) {
  if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
  const auto id = static_cast<NameId>(texts_.size());
  texts_.emplace_back(text);
  ids_.emplace(texts_.back(), id);
  return id;
}

}  // namespace autotuned::traces
