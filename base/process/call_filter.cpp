// SPDX-License-Identifier: Apache-2.0
#include "base/process/call_filter.hpp"

#if defined(__x86_64__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#endif

namespace autotuned {

#if defined(__x86_64__)
namespace {

constexpr const char* kWhat = "cannot keep the code of extensions from reaching other processes";

constexpr std::uint32_t kX32Bit = 0x40000000;  // of the number of a call
// Newer than the headers of some systems.
constexpr std::uint32_t kClone3 = 435;
constexpr std::uint32_t kProcessMadvise = 440;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint32_t kPtrace = SYS_perf_event_open;
#else
constexpr std::uint32_t kPtrace = SYS_ptrace;
#endif

constexpr sock_filter load(std::uint32_t offset) {
  return {BPF_LD | BPF_W | BPF_ABS, 0, 0, offset};
}
constexpr sock_filter answer(std::uint32_t action) {
  return {BPF_RET | BPF_K, 0, 0, action};
}
// Goes on if the loaded value passes the test; else skips the next instruction.
constexpr sock_filter if_equal(std::uint32_t value) {
  return {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value};
}
constexpr sock_filter if_at_least(std::uint32_t value) {
  return {BPF_JMP | BPF_JGE | BPF_K, 0, 1, value};
}
constexpr sock_filter unless_equal(std::uint32_t value) {
  return {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, value};
}
constexpr sock_filter if_any_bit(std::uint32_t bits) {
  return {BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits};
}
// Goes on if the loaded value is this one; else skips so many instructions.
constexpr sock_filter if_equal_else_skip(std::uint32_t value, std::uint8_t instructions) {
  return {BPF_JMP | BPF_JEQ | BPF_K, 0, instructions, value};
}

// The lower half of the first argument: x86-64 has it first.
constexpr std::uint32_t kFirstArgument = offsetof(seccomp_data, args);

}  // namespace

Result<void> refuse_calls_to_other_processes() {
  constexpr sock_filter kRefuse = answer(SECCOMP_RET_ERRNO | EPERM);
  constexpr sock_filter kUnknown = answer(SECCOMP_RET_ERRNO | ENOSYS);
  constexpr sock_filter kAllow = answer(SECCOMP_RET_ALLOW);
  std::array program{
      load(offsetof(seccomp_data, arch)),
      unless_equal(AUDIT_ARCH_X86_64),
      kRefuse,
      load(offsetof(seccomp_data, nr)),
      if_at_least(kX32Bit),
      kRefuse,
      if_equal(SYS_perf_event_open),
      kRefuse,
      if_equal(kPtrace),
      kRefuse,
      if_equal(SYS_process_vm_writev),
      kRefuse,
      if_equal(kProcessMadvise),
      kRefuse,
      // Its flags are in memory, which no filter can read. The C library takes clone() then.
      if_equal(kClone3),
      kUnknown,
      if_equal_else_skip(SYS_clone, 4),
      load(kFirstArgument),
      if_any_bit(CLONE_PARENT),
      kRefuse,
      kAllow,
      if_equal_else_skip(SYS_prctl, 3),
      load(kFirstArgument),
      if_equal(PR_SET_CHILD_SUBREAPER),
      kRefuse,
      kAllow,
  };
  const sock_fprog filter{.len = static_cast<unsigned short>(program.size()),
                          .filter = program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return tl::unexpected(system_error(errno, kWhat));
  }
  // By prctl() only the calling thread would have it, and an extension can run code in the others, such as OpenMP's.
  // Without SPEC_ALLOW, kernels before 5.16 let the processor speculate less there: it would be slower than others.
  constexpr unsigned long kFlags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
  const long done = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &filter);
  if (done < 0) return tl::unexpected(system_error(errno, kWhat));
  if (done > 0) {
    return fail(ErrorKind::unsupported, std::string(kWhat) + ": thread " + std::to_string(done) +
                                            " has a seccomp filter of its own");
  }
  return {};
}

#else

Result<void> refuse_calls_to_other_processes() {
  return fail(ErrorKind::unsupported,
              "cannot keep the code of extensions from reaching other processes: this is known for "
              "x86-64 only");
}

#endif

}  // namespace autotuned
