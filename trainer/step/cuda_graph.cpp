// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/cuda_graph.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace autotuned::trainer {
namespace {

constexpr const char* kLibrary = "lib/autotuned/libautotuned_cuda.so";
constexpr const char* kMaker = "autotuned_make_cuda_recorder";

}  // namespace

Result<std::unique_ptr<GraphRecorder>> open_cuda_recorder(at::Device device) {
  if (!device.is_cuda()) {
    return fail(ErrorKind::unsupported, "the job runs on " + device.str() + ", which has no graphs",
                "cuda.graph", "leave it off");
  }
  // The library is beside the program, in the build folder and when installed.
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path file = self.parent_path().parent_path() / kLibrary;
  // Never closed: what it made lives as long as the process may run.
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return fail(ErrorKind::unsupported,
                std::string("cannot be loaded: ") + (why != nullptr ? why : "unknown error"),
                file.string(),
                "install the program anew, with the LibTorch that it was built with");
  }
  using Maker = GraphRecorder*(int);
  auto* const make = reinterpret_cast<Maker*>(::dlsym(library, kMaker));
  if (make == nullptr) {
    return fail(ErrorKind::unsupported, std::string("lacks the function ") + kMaker, file.string(),
                "install the program anew");
  }
  return std::unique_ptr<GraphRecorder>(make(device.index()));
}

}  // namespace autotuned::trainer
