// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/worker_cpus.hpp"

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <system_error>
#include <vector>

namespace autotuned::input {
namespace {

// Larger machines than CPU_SETSIZE take a longer mask.
constexpr std::size_t kMaxSets = 64;

tl::unexpected<Error> refused(int number) {
  return fail(
      ErrorKind::unsupported,
      "cannot change the CPUs of loader threads: " + std::generic_category().message(number),
      "loader.affinity", "use any");
}

}  // namespace

Result<void> place_threads(std::span<std::jthread> threads, Affinity affinity) {
  if (threads.empty()) return {};
  std::vector<cpu_set_t> mask(1);
  const auto bytes = [&mask] { return mask.size() * sizeof(cpu_set_t); };
  while (::sched_getaffinity(0, bytes(), mask.data()) != 0) {
    if (errno != EINVAL || mask.size() >= kMaxSets) return refused(errno);
    mask.resize(2 * mask.size());
  }
  // A caller that is bound to one CPU (OMP_PROC_BIND does that) says nothing about where the others may run.
  if (CPU_COUNT_S(bytes(), mask.data()) == 1) return {};
  if (affinity == Affinity::apart) {
    const int here = ::sched_getcpu();
    if (here >= 0) CPU_CLR_S(static_cast<std::size_t>(here), bytes(), mask.data());
  }
  for (std::jthread& thread : threads) {
    const int number = ::pthread_setaffinity_np(thread.native_handle(), bytes(), mask.data());
    if (number != 0) return refused(number);
  }
  return {};
}

}  // namespace autotuned::input
