// SPDX-License-Identifier: Apache-2.0
#include "base/result.hpp"

#include <array>
#include <cerrno>
#include <system_error>

namespace autotuned {
namespace {

struct KindName {
  ErrorKind kind;
  std::string_view name;
};

constexpr std::array kKindNames = {
    KindName{ErrorKind::invalid, "invalid"},
    KindName{ErrorKind::not_found, "not_found"},
    KindName{ErrorKind::io, "io"},
    KindName{ErrorKind::disk_full, "disk_full"},
    KindName{ErrorKind::permission, "permission"},
    KindName{ErrorKind::busy, "busy"},
    KindName{ErrorKind::corrupt, "corrupt"},
    KindName{ErrorKind::newer_version, "newer_version"},
    KindName{ErrorKind::unsupported, "unsupported"},
    KindName{ErrorKind::out_of_memory, "out_of_memory"},
    KindName{ErrorKind::timeout, "timeout"},
    KindName{ErrorKind::crashed, "crashed"},
    KindName{ErrorKind::cancelled, "cancelled"},
    KindName{ErrorKind::internal, "internal"},
};

ErrorKind kind_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorKind::not_found;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorKind::disk_full;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorKind::permission;
    case EAGAIN:
    case EBUSY:
    case ETXTBSY:
      return ErrorKind::busy;
    case ENOMEM:
      return ErrorKind::out_of_memory;
    case ETIMEDOUT:
      return ErrorKind::timeout;
    case EPIPE:
    case ECONNRESET:
    case ESRCH:
      return ErrorKind::crashed;
    case EINTR:
    case ECANCELED:
      return ErrorKind::cancelled;
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return ErrorKind::invalid;
    case ENOSYS:
    case EOPNOTSUPP:
    case ENOEXEC:
      return ErrorKind::unsupported;
    default:
      return ErrorKind::io;
  }
}

std::string remedy_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::disk_full:
      return "make room on that disk or raise the quota";
    case ErrorKind::permission:
      return "check the owner and the mode";
    default:
      return {};
  }
}

}  // namespace

std::string_view to_string(ErrorKind kind) {
  for (const KindName& entry : kKindNames) {
    if (entry.kind == kind) return entry.name;
  }
  return "internal";
}

ErrorKind error_kind_from(std::string_view name) {
  for (const KindName& entry : kKindNames) {
    if (entry.name == name) return entry.kind;
  }
  return ErrorKind::internal;
}

std::string Error::message() const {
  std::string text;
  if (!where.empty()) text = where + ": ";
  text += what;
  if (!remedy.empty()) text += "; " + remedy;
  return text;
}

Error system_error(int error_number, std::string what, std::string where) {
  const ErrorKind kind = kind_of_errno(error_number);
  what += " (" + std::generic_category().message(error_number) + ")";
  return Error{kind, std::move(what), std::move(where), remedy_of(kind)};
}

}  // namespace autotuned
