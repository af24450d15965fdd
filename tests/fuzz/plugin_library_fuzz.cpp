// SPDX-License-Identifier: Apache-2.0
// Files that claim to be plugins: what is read of them before anything of them runs. library_info is
// what plugins/loader.cpp asks for the alias, once check_library_file() has let a file pass.
#include <boost/dll/library_info.hpp>
#include <exception>

#include "plugins/library_file.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace autotuned;
  const auto file = fuzz::file_with(fuzz::text_of(data, size));
  const auto checked = plugins::check_library_file(file);
  if (!checked) {
    FUZZ_CHECK(!checked.error().what.empty());
    return 0;
  }
  try {
    static_cast<void>(boost::dll::library_info(file).symbols());
  } catch (const std::exception&) {
    // The loader makes an error of it.
  }
  return 0;
}
