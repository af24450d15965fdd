// SPDX-License-Identifier: Apache-2.0
#include "base/error_json.hpp"

#include <string>

namespace autotuned {

Json to_json(const Error& error) {
  Json json = {{"kind", to_string(error.kind)},
               {"what", error.what},
               {"where", error.where},
               {"remedy", error.remedy}};
  if (error.signal != 0) json["signal"] = error.signal;
  if (error.is_memory_of_others) json["is_memory_of_others"] = true;
  if (!error.extensions.empty()) json["extensions"] = error.extensions;
  if (error.extension_fault != ExtensionFault::failed) {
    json["extension_fault"] = to_string(error.extension_fault);
  }
  return json;
}

Error error_from_json(const Json& error) {
  const auto text = [&error](const char* field) { return get_string(error, field).value_or(""); };
  Error told{error_kind_from(text("kind")), text("what"), text("where"), text("remedy")};
  told.signal = static_cast<int>(get_integer(error, "signal").value_or(0));
  told.is_memory_of_others = get_bool(error, "is_memory_of_others").value_or(false);
  told.extensions = strings_in(error, "extensions");
  told.extension_fault = extension_fault_from(text("extension_fault"));
  return told;
}

}  // namespace autotuned
