// SPDX-License-Identifier: Apache-2.0
// Files that claim to be plugins: what is read of them before anything of them runs.
#include <array>

#include "plugins/host/library_file.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace autotuned;
  using plugins::FieldType;
  constexpr const char* kAlias = "autotuned_plugin_v1";
  constexpr std::array kFields = {FieldType::number, FieldType::number,   FieldType::text,
                                  FieldType::text,   FieldType::function, FieldType::text};
  const auto file = fuzz::file_with(fuzz::text_of(data, size));
  if (const auto checked = plugins::check_library_file(file); !checked) {
    FUZZ_CHECK(!checked.error().what.empty());
    return 0;
  }
  FUZZ_CHECK(plugins::read_section(file, ".autotuned.trainer").has_value());
  const auto alias = plugins::check_alias(file, kAlias);
  const auto fields = plugins::read_descriptor(file, kAlias, kFields);
  FUZZ_CHECK(!fields || fields->size() == kFields.size());
  FUZZ_CHECK(alias || !alias.error().what.empty());
  return 0;
}
