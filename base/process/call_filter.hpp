// SPDX-License-Identifier: Apache-2.0
// Takes from a process the system calls with which it could slow or change other processes of the same user, or hide
// one that it starts. For the trainer, before it runs the code of an extension: a performance event of short period
// that is opened on the threads of another trainer fires there whenever that one runs, also while the process that
// opened it is stopped.
#pragma once

#include "base/result.hpp"

namespace autotuned {

// From this call on, the kernel answers these calls with EPERM (a seccomp filter):
//   perf_event_open                     profiling of any process, itself included
//   ptrace                              debugging; not refused under AddressSanitizer, whose search for leaks needs it
//   process_vm_writev, process_madvise  writing the memory of another process, and dropping its pages
//   clone with CLONE_PARENT             starting a process that is no descendant of this one (ProcessFamily)
//   prctl(PR_SET_CHILD_SUBREAPER)       no longer adopting orphans (adopt_orphans()), to the same end
//   every call by another interface than that of x86-64 (32 bits, x32), which has other numbers; so 32-bit programs
//   cannot run
// clone3 is answered with ENOSYS, as by a kernel that does not have it: its flags cannot be seen. The C library starts
// threads and processes by clone then.
//
// It holds for all threads of this process, those that run already included, and for all processes that they start; it
// survives execve() and cannot be taken back. Set-user-ID programs get no other rights any more (PR_SET_NO_NEW_PRIVS).
// Each call adds a filter: call it once.
//
// Other processes can still profile and debug this one.
//
// Errors: the kernel has no seccomp filters, the architecture is not x86-64, or a thread has a filter of its own. Then
// nothing is refused.
[[nodiscard]] Result<void> refuse_calls_to_other_processes();

}  // namespace autotuned
