// SPDX-License-Identifier: Apache-2.0
#include "trainer/common/installed_library.hpp"

#include <dlfcn.h>

#include <system_error>

namespace autotuned::trainer {

std::filesystem::path installed_library(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path().parent_path() / "lib/autotuned" / name;
}

Result<void*> function_of(const std::filesystem::path& library, const char* function) {
  // Never closed: what it made lives as long as the process may run.
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const why = ::dlerror();
    return fail(ErrorKind::unsupported,
                std::string("cannot be loaded: ") + (why != nullptr ? why : "unknown error"),
                library.string(),
                "install the program anew, with the LibTorch that it was built with");
  }
  void* const found = ::dlsym(opened, function);
  if (found == nullptr) {
    return fail(ErrorKind::unsupported, std::string("lacks the function ") + function,
                library.string(), "install the program anew");
  }
  return found;
}

}  // namespace autotuned::trainer
