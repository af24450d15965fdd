// SPDX-License-Identifier: Apache-2.0
#include "trainer/hello.hpp"

#include <unistd.h>

#include <string>

#include "profiler/recorder/cupti_library.hpp"
#include "trainer/job/settings/supported_knobs.hpp"

namespace autotuned::trainer {
namespace {

constexpr int kProtocol = 1;
constexpr const char* kTrainer = "autotuned-trainer 0.1.0";

// Why profiles have no GPU in them; empty when they have.
std::string cupti_reason(const Devices& devices) {
  if (!devices.cuda_reason.empty()) return devices.cuda_reason;
  const auto cupti = profiler::open_cupti();
  return cupti ? "" : cupti.error().message();
}

}  // namespace

Json hello_of(const Devices& devices) {
  return {{"protocol", kProtocol},
          {"trainer", kTrainer},
          {"libtorch", libtorch_version()},
          {"pid", ::getpid()},
          {"devices", devices.names},
          {"device_uuids", devices.cuda_uuids},
          {"cuda_reason", devices.cuda_reason},
          {"cupti_reason", cupti_reason(devices)},
          {"knobs", supported_knobs()}};
}

}  // namespace autotuned::trainer
