// SPDX-License-Identifier: Apache-2.0
// The outcome of anything that may be expected to fail.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace autotuned {

// The kind of a failure: callers decide by it. The names are stored and sent: never change one.
enum class ErrorKind {
  invalid,        // input that cannot be used: a recipe, a request, an argument
  not_found,      // a file, run, knob or plugin that does not exist
  io,             // the system refused to read or write
  disk_full,      // no space left to write
  permission,     // not allowed, or owned by a user that is not trusted
  busy,           // locked by someone else
  corrupt,        // a file's content is not valid for its format
  newer_version,  // written by a later version of this program
  unsupported,    // this machine or this build cannot do it
  out_of_memory,  // host or device memory
  timeout,        // no answer within the time limit
  crashed,        // the process on the other side ended
  cancelled,      // somebody asked to stop
  internal,       // a defect of this program
};

[[nodiscard]] std::string_view to_string(ErrorKind kind);
// Returns the kind of this name; `internal` for an unknown name.
[[nodiscard]] ErrorKind error_kind_from(std::string_view name);

// Why the error of a trainer names extensions. The names are stored and sent, except `failed`: never change one.
enum class ExtensionFault {
  failed,             // one threw, lacked memory, or could not be applied
  suspected,          // work failed while they were on, in code that may not be theirs
  trained_otherwise,  // a comparison found that; it may have been so in steps before, unseen
};

[[nodiscard]] std::string_view to_string(ExtensionFault fault);
// Returns the fault of this name; `failed` for an unknown name.
[[nodiscard]] ExtensionFault extension_fault_from(std::string_view name);

// An error for people: what happened, where, and what to do about it.
struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string what;  // one clause without a full stop: "the file ends after 1,024 of 60,000 images"
  std::string where;   // file, file:line:column, process, table; may be empty
  std::string remedy;  // one clause: "install the package dataset-fashion-mnist"; may be empty
  int signal = 0;      // that ended the process on the other side; 0: none, or not known
  bool is_memory_of_others = false;  // of a lack of memory: other programs hold much of it
  // Of a measurement: somebody changed the conditions meanwhile, so the same may succeed when it is done again. Neither
  // stored nor sent.
  bool is_disturbance = false;
  bool is_of_reference = false;  // of a comparison: the candidate had no part in what failed
  // Of a trainer: the names of the extensions that failed, or that did what they must not; of several it is one.
  std::vector<std::string> extensions = {};
  ExtensionFault extension_fault = ExtensionFault::failed;  // of `extensions`

  // "where: what; remedy", without the parts that are empty.
  [[nodiscard]] std::string message() const;
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(ErrorKind kind, std::string what,
                                                std::string where = {}, std::string remedy = {}) {
  return tl::unexpected<Error>(Error{kind, std::move(what), std::move(where), std::move(remedy)});
}

// Returns the error of `failed` from a function whose result has another value type:
//   if (auto block = run_block(); !block) return forward_error(block);
// REQUIRES: `failed` holds an error.
template <class T>
[[nodiscard]] tl::unexpected<Error> forward_error(const Result<T>& failed) {
  return tl::unexpected<Error>(failed.error());
}

// Makes an Error from the errno of a failed system call: maps ENOSPC, EACCES, ENOENT, ENOMEM, EAGAIN and so on to a kind, and
// appends the text of the system to `what`.
[[nodiscard]] Error system_error(int error_number, std::string what, std::string where = {});

}  // namespace autotuned
