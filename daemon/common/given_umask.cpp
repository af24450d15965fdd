// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/given_umask.hpp"

namespace autotuned::daemon {
namespace {

mode_t given = 022;

}  // namespace

void remember_given_umask(mode_t mask) {
  given = mask;
}

mode_t given_umask() {
  return given;
}

}  // namespace autotuned::daemon
